// A RowReader reads device rows as tests see them, whatever backend they are over: ids and rows lie in the
// host's memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/batches/device_rows.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::testing {

class RowReader {
 public:
  static constexpr std::size_t kGuard = 64;  // bytes of kUntouched behind the rows
  static constexpr int kUntouched = 0x5C;

  virtual ~RowReader() = default;
  virtual std::vector<std::byte> gather(const std::vector<std::int64_t>& ids) = 0;
  virtual std::vector<std::byte> gather_as_float(const std::vector<std::int64_t>& ids) = 0;
  virtual gpu::RowCounts counts() = 0;
  virtual std::size_t device_bytes() const = 0;
};

using RowReaderFactory = std::function<std::unique_ptr<RowReader>(const gpu::RowsPlan&)>;

template <class Backend>
class RowReaderOn : public RowReader {
 public:
  RowReaderOn(const gpu::RowsPlan& plan, const typename Backend::Options& options)
      : backend_(options), rows_(backend_, plan), ids_(backend_), out_(backend_), plan_(plan) {}

  std::vector<std::byte> gather(const std::vector<std::int64_t>& ids) override {
    const auto bytes = static_cast<std::size_t>(plan_.rows.row_bytes);
    return read(ids, bytes, [&](std::byte* out) { rows_.gather(ids_.data(), ids.size(), out); });
  }
  std::vector<std::byte> gather_as_float(const std::vector<std::int64_t>& ids) override {
    const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(plan_.rows.elements);
    return read(ids, bytes, [&](std::byte* out) {
      rows_.gather_as_float(ids_.data(), ids.size(), reinterpret_cast<float*>(out));
    });
  }
  gpu::RowCounts counts() override { return rows_.counts(); }
  std::size_t device_bytes() const override { return rows_.device_bytes(); }

 private:
  template <class Gather>
  std::vector<std::byte> read(const std::vector<std::int64_t>& ids, std::size_t row_bytes, Gather gather) {
    const std::size_t bytes = ids.size() * row_bytes + kGuard;
    ids_.reserve(ids.size());
    out_.reserve(bytes);
    backend_.copy(ids_.data(), ids.data(), ids.size() * sizeof(std::int64_t));
    backend_.fill(out_.data(), kUntouched, bytes);
    gather(out_.data());
    std::vector<std::byte> out(bytes);
    backend_.copy(out.data(), out_.data(), bytes);
    backend_.wait();
    return out;
  }

  Backend backend_;
  gpu::DeviceRows<Backend> rows_;
  gpu::DeviceArray<Backend, std::int64_t> ids_;
  gpu::DeviceArray<Backend, std::byte> out_;
  const gpu::RowsPlan plan_;
};

/// Makes a reader on a card (cuda_row_reader.cu). Throws kNotFound where hopfeed was built without CUDA.
std::unique_ptr<RowReader> make_cuda_row_reader(const gpu::RowsPlan& plan);

}  // namespace hopfeed::testing
