// Makes random tables of rows, and compares rows from a device with them: byte for byte, and as float32 bit
// for bit with what the CPU makes of them. What runs the kernels is the caller's, so that hosts and cards
// pass the same rounds.
#pragma once
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/half_floats.h"
#include "core/base/quantised_rows.h"
#include "tests/core/random_kinds.h"
#include "tests/gpu/row_reader.h"

namespace hopfeed::testing {

/// Returns what gather_as_float() is to give for a row.
inline std::vector<float> floats_of(ElementType type, std::int64_t elements, const std::byte* row) {
  std::vector<float> out(static_cast<std::size_t>(elements));
  if (has_scale(type)) {
    dequantise({.type = type, .elements = elements, .stride_bytes = 0, .count = 1, .rows = row}, out.data());
    return out;
  }
  if (type == ElementType::kFloat32) {
    std::memcpy(out.data(), row, out.size() * sizeof(float));
    return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, row + 2 * i, sizeof half);
    out[i] = type == ElementType::kFloat16 ? from_float16(half) : from_bfloat16(half);
  }
  return out;
}

inline bool becomes_float(ElementType type) {
  return has_scale(type) || type == ElementType::kFloat32 || type == ElementType::kFloat16 ||
         type == ElementType::kBfloat16;
}

/// RowMemory is whole pages of its own, as arrays have that a device reads in place: they are locked whole,
/// and CUDA copies nothing that begins in locked pages and ends in others. AddressSanitizer sees who reads
/// one byte more than was asked for.
class RowMemory {
 public:
  explicit RowMemory(std::size_t bytes) : bytes_(bytes) {
    constexpr std::size_t kPage = 4096;
    const std::size_t whole = (bytes + kPage) / kPage * kPage;
    void* memory = nullptr;
    if (posix_memalign(&memory, kPage, whole) != 0) throw std::bad_alloc();
    memory_.reset(static_cast<std::byte*>(memory));
    ASAN_POISON_MEMORY_REGION(memory_.get() + bytes, whole - bytes);
  }
  std::byte* begin() const { return memory_.get(); }
  std::byte* end() const { return memory_.get() + bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// A RowTable has rows of one attribute, each partition in memory of its own that ends with the last row.
struct RowTable {
  std::vector<RowMemory> memory;
  gpu::HostRows rows;

  std::int64_t num_rows() const { return rows.partition_offsets.back(); }
  std::int64_t stride() const { return rows.stride == 0 ? rows.row_bytes : rows.stride; }
  std::size_t part_of(std::int64_t id) const {
    std::size_t p = rows.parts.size() - 1;
    while (rows.partition_offsets[p] > id) --p;
    return p;
  }
  const std::byte* row(std::int64_t id) const {
    const std::size_t p = part_of(id);
    return rows.parts[p] + (id - rows.partition_offsets[p]) * stride();
  }
};

class RowRounds : public Rounds {
 public:
  using Rounds::Rounds;

  RowTable table() {
    RowTable table;
    gpu::HostRows& rows = table.rows;
    rows.type = static_cast<ElementType>(1 + below(13));
    const std::int64_t most = below(3) == 0 ? 40 : 700;
    do {
      rows.elements = 1 + below(2 * most);
      rows.row_bytes = bytes_of_row(rows.type, std::vector{rows.elements}).value();
    } while (rows.row_bytes > most);
    const std::int64_t strides[] = {0, rows.row_bytes, (rows.row_bytes + 31) / 32 * 32,
                                    (rows.row_bytes + 127) / 128 * 128, rows.row_bytes + below(70)};
    rows.stride = strides[below(5)];
    rows.partition_offsets = {0};
    for (std::int64_t parts = 1 + below(5); parts > 0; --parts) {
      const std::int64_t count = below(4) == 0 ? 0 : 1 + below(60);
      rows.partition_offsets.push_back(rows.partition_offsets.back() + count);
      add_part(table, count);
    }
    return table;
  }

  gpu::RowsPlan plan(const RowTable& table) {
    gpu::RowsPlan plan{.rows = table.rows};
    const std::int64_t share = below(6);  // in quarters; 5: each partition another
    for (std::size_t p = 0; p < table.rows.parts.size() && share > 0; ++p) {
      const std::int64_t count = table.rows.partition_offsets[p + 1] - table.rows.partition_offsets[p];
      plan.held.push_back(share == 5 ? below(count + 1) : count * share / 4);
    }
    plan.place = below(4) == 0 ? gpu::GraphPlace::kDevice : gpu::GraphPlace::kHost;
    plan.sort_ids = below(2) == 1;
    return plan;
  }

  std::vector<std::int64_t> ids(const RowTable& table) {
    std::vector<std::int64_t> ids;
    if (table.num_rows() == 0 || below(8) == 0) return ids;
    ids.resize(static_cast<std::size_t>(1 + below(below(2) == 0 ? 4 : 300)));
    for (std::int64_t& id : ids) id = below(table.num_rows());
    return ids;
  }

 private:
  /// Adds a part that begins anywhere, or as aligned arrays do.
  void add_part(RowTable& table, std::int64_t count) {
    const gpu::HostRows& rows = table.rows;
    const std::size_t shift = below(2) == 0 ? 0 : static_cast<std::size_t>(below(128));
    const std::size_t bytes =
        count == 0 ? 0 : static_cast<std::size_t>((count - 1) * table.stride() + rows.row_bytes);
    RowMemory& memory = table.memory.emplace_back(shift + bytes);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(word());
    std::byte* const first = memory.begin() + shift;
    if (has_scale(rows.type))
      for (std::int64_t i = 0; i < count; ++i) quantise(rows, first + i * table.stride());
    table.rows.parts.push_back(first);
  }

  void quantise(const gpu::HostRows& rows, std::byte* row) {
    std::vector<float> values(static_cast<std::size_t>(rows.elements));
    const float size = below(10) == 0 ? 0.0F : static_cast<float>(1 + below(1'000'000)) * 1e-3F;
    for (float& value : values) value = (static_cast<float>(below(2'001)) - 1'000.0F) * size;
    quantise_row(rows.type, values, row);
  }
};

/// Expects the rows of `ids` from both gathers.
inline void expect_rows(RowReader& reader, const RowTable& table, const std::vector<std::int64_t>& ids) {
  const gpu::HostRows& rows = table.rows;
  const auto expect = [&](const std::vector<std::byte>& got, std::size_t row_bytes, const auto& wanted,
                          const char* what) {
    ASSERT_EQ(got.size(), ids.size() * row_bytes + RowReader::kGuard);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ASSERT_EQ(std::memcmp(got.data() + i * row_bytes, wanted(ids[i]).data(), row_bytes), 0)
          << what << ": row " << i << " of " << ids.size() << ", id " << ids[i];
    for (std::size_t i = ids.size() * row_bytes; i < got.size(); ++i)
      ASSERT_EQ(got[i], static_cast<std::byte>(RowReader::kUntouched)) << what << ": behind the rows";
  };
  const auto row_bytes = static_cast<std::size_t>(rows.row_bytes);
  expect(
      reader.gather(ids), row_bytes,
      [&](std::int64_t id) { return std::vector<std::byte>(table.row(id), table.row(id) + row_bytes); },
      "as stored");
  if (!becomes_float(rows.type)) return;
  expect(
      reader.gather_as_float(ids), sizeof(float) * static_cast<std::size_t>(rows.elements),
      [&](std::int64_t id) { return floats_of(rows.type, rows.elements, table.row(id)); }, "as float32");
}

/// Returns how many of the rows lie in the device's memory.
inline std::uint64_t count_held(const gpu::RowsPlan& plan, const RowTable& table,
                                const std::vector<std::int64_t>& ids) {
  if (plan.place == gpu::GraphPlace::kDevice) return ids.size();
  if (plan.held.empty()) return 0;
  return static_cast<std::uint64_t>(std::ranges::count_if(ids, [&](std::int64_t id) {
    const std::size_t p = table.part_of(id);
    return id - table.rows.partition_offsets[p] < plan.held[p];
  }));
}

struct RowRun {
  int configurations = 450;
  std::uint64_t seed = 1;
  /// It may make another backend for each configuration.
  std::function<RowReaderFactory(Rounds&)> reader;
};

/// Returns the rows that were asked for, by where they lay.
inline gpu::RowCounts run_row_rounds(const RowRun& run) {
  RowRounds rounds(run.seed);
  gpu::RowCounts sum;
  for (int configuration = 0; configuration < run.configurations; ++configuration) {
    const RowTable table = rounds.table();
    const gpu::RowsPlan plan = rounds.plan(table);
    SCOPED_TRACE("configuration " + std::to_string(configuration) + ": " +
                 std::to_string(table.rows.elements) + " of " + to_string(table.rows.type) + ", " +
                 std::to_string(table.stride()) + " bytes apart" + (plan.sort_ids ? ", sorted" : ""));
    const std::unique_ptr<RowReader> reader = run.reader(rounds)(plan);
    gpu::RowCounts wanted;
    for (int batch = 0; batch < 3; ++batch) {
      const std::vector<std::int64_t> ids = rounds.ids(table);
      expect_rows(*reader, table, ids);
      const std::uint64_t times = becomes_float(table.rows.type) ? 2 : 1, held = count_held(plan, table, ids);
      wanted.on_device += times * held;
      wanted.over_uva += times * (ids.size() - held);
      const gpu::RowCounts counts = reader->counts();
      EXPECT_EQ(counts.on_device, wanted.on_device);
      EXPECT_EQ(counts.over_uva, wanted.over_uva);
      if (::testing::Test::HasFailure()) return sum;
    }
    sum.on_device += wanted.on_device;
    sum.over_uva += wanted.over_uva;
  }
  return sum;
}

/// Expects of each half float, in rows of 100, what it becomes.
inline void expect_every_half(ElementType type, const RowReaderFactory& make_reader) {
  RowTable table;
  std::byte* const first = table.memory.emplace_back(656 * 200).begin();
  for (std::size_t i = 0; i < 65'600; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(first + 2 * i, &half, sizeof half);
  }
  table.rows = {
      .parts = {first}, .partition_offsets = {0, 656}, .row_bytes = 200, .type = type, .elements = 100};
  std::vector<std::int64_t> ids(656);
  std::iota(ids.begin(), ids.end(), 0);
  expect_rows(*make_reader({.rows = table.rows, .held = {300}}), table, ids);
}

}  // namespace hopfeed::testing
