// Measures what gpu_gather.h says over a backend (gpu/device/host_backend.h), so that it can be tried where
// no card is.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bench/core/gpu_gather.h"
#include "core/base/error.h"
#include "gpu/batches/device_rows.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::bench {

template <class Backend>
class GpuGatherMeter {
 public:
  GpuGatherMeter(const GpuGatherOptions& options, const typename Backend::Options& of_backend)
      : options_(options), backend_(of_backend), table_(backend_), ids_(backend_), out_(backend_) {
    table_.reserve(options_.host_bytes);
    std::mt19937_64 random(5);
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= options_.host_bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(table_.data() + at, &word, sizeof word);
    }
    ids_.reserve(options_.gathered_rows);
    out_.reserve(options_.gathered_rows * options_.row_bytes);
  }

  GpuGatherRates measure() {
    GpuGatherRates rates;
    copies(rates);
    for (const std::size_t stride : strides())
      for (const bool sorted : {false, true})
        rates.in_place.push_back({stride, sorted, gather(plan(stride, 0, sorted), rates).bytes_per_s});
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
      rates.mixtures.push_back(gather(plan(options_.row_bytes, share, false), rates));
    for (MixtureRate& mixture : rates.mixtures) {
      mixture.predicted_bytes_per_s = 1 / (mixture.held_asked / rates.mixtures.back().bytes_per_s +
                                           (1 - mixture.held_asked) / rates.mixtures.front().bytes_per_s);
    }
    rates.held_bytes = rates.mixtures.back().bytes_per_s;
    return rates;
  }

 private:
  std::set<std::size_t> strides() const {
    const auto padded = [&](std::size_t to) { return (options_.row_bytes + to - 1) / to * to; };
    return {options_.row_bytes, padded(32), padded(128)};
  }

  gpu::RowsPlan plan(std::size_t stride, double held, bool sorted) const {
    const auto count = static_cast<std::int64_t>(options_.host_bytes / stride);
    gpu::RowsPlan plan;
    plan.rows.parts = {table_.data()};
    plan.rows.partition_offsets = {0, count};
    plan.rows.row_bytes = static_cast<std::int64_t>(options_.row_bytes);
    plan.rows.stride = static_cast<std::int64_t>(stride);
    plan.rows.type = ElementType::kUint8;
    plan.rows.elements = plan.rows.row_bytes;
    plan.held = {static_cast<std::int64_t>(held * static_cast<double>(count))};
    plan.sort_ids = sorted;
    return plan;
  }

  /// Returns the median seconds of `work`, which is repeated between two waits.
  template <class Work>
  double seconds(const Work& work) {
    std::vector<double> times;
    for (int i = 0; i <= options_.repetitions; ++i) {  // the first one warms
      backend_.wait();
      const auto begin = std::chrono::steady_clock::now();
      for (int g = 0; g < options_.gathers; ++g) work();
      backend_.wait();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (i > 0) times.push_back(took.count() / options_.gathers);
    }
    std::nth_element(times.begin(), times.begin() + options_.repetitions / 2, times.end());
    return times[static_cast<std::size_t>(options_.repetitions / 2)];
  }

  void copies(GpuGatherRates& rates) {
    gpu::DeviceArray<Backend, std::byte> device(backend_);
    device.reserve(options_.host_bytes);
    const std::size_t half = options_.host_bytes / 2;
    rates.host_to_device_bytes = static_cast<double>(options_.host_bytes) / seconds([&] {
                                   backend_.copy(device.data(), table_.data(), options_.host_bytes);
                                 });
    rates.device_copy_bytes = static_cast<double>(half) /
                              seconds([&] { backend_.copy(device.data() + half, device.data(), half); });
  }

  MixtureRate gather(const gpu::RowsPlan& plan, GpuGatherRates& rates) {
    const std::int64_t count = plan.rows.partition_offsets[1];
    std::mt19937_64 random(7);
    std::vector<std::int64_t> ids(options_.gathered_rows);
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
    backend_.copy(ids_.data(), ids.data(), ids.size() * sizeof(std::int64_t));
    gpu::DeviceRows<Backend> rows(backend_, plan);
    const double took = seconds([&] { rows.gather(ids_.data(), ids.size(), out_.data()); });
    verify(plan, ids, rates);
    const gpu::RowCounts counts = rows.counts();
    MixtureRate rate;
    rate.held = static_cast<double>(plan.held[0]) / static_cast<double>(count);
    rate.held_asked =
        static_cast<double>(counts.on_device) / static_cast<double>(counts.on_device + counts.over_uva);
    rate.bytes_per_s = static_cast<double>(ids.size() * options_.row_bytes) / took;
    return rate;
  }

  void verify(const gpu::RowsPlan& plan, const std::vector<std::int64_t>& ids, GpuGatherRates& rates) {
    std::vector<std::byte> rows(ids.size() * options_.row_bytes);
    backend_.copy(rows.data(), out_.data(), rows.size());
    backend_.wait();
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (std::memcmp(rows.data() + i * options_.row_bytes, table_.data() + ids[i] * plan.rows.stride,
                      options_.row_bytes) != 0)
        throw Error(ErrorCode::kCorrupt, "gathered row " + std::to_string(i) + " differs from the table's");
    rates.verified_rows += ids.size();
  }

  const GpuGatherOptions options_;
  Backend backend_;
  gpu::DeviceArray<Backend, std::byte, gpu::Where::kPinned> table_;
  gpu::DeviceArray<Backend, std::int64_t> ids_;
  gpu::DeviceArray<Backend, std::byte> out_;
};

}  // namespace hopfeed::bench
