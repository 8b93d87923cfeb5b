// See device_memory_budget.h.
#include "gpu/memory/device_memory_budget.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/saturating.h"

namespace hopfeed::gpu {
namespace {

constexpr const char* kOption = "--gpu-cache";  // what errors name
constexpr std::size_t kAutomaticShare = 4;      // of the free memory; the rest is the trainer's
constexpr std::int64_t kPartAlignment = 128;    // DeviceRows begins each partition at a multiple

/// None where it would be less than a row.
HeldShare largest_share(std::span<const BudgetedRows> attrs, std::size_t bytes) {
  std::uint32_t fits = 0, too_much = HeldShare::kAll + 1;  // bytes grow with the share
  while (too_much - fits > 1) {
    const std::uint32_t middle = fits + (too_much - fits) / 2;
    (held_bytes({.millionths = middle}, attrs) <= bytes ? fits : too_much) = middle;
  }
  const HeldShare share{.millionths = fits};
  return held_bytes(share, attrs) > 0 ? share : HeldShare{};
}

}  // namespace

std::vector<std::int64_t> held_rows(HeldShare share, std::span<const std::int64_t> partition_offsets) {
  std::vector<std::int64_t> held;
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p)
    held.push_back(share.rows(partition_offsets[p + 1] - partition_offsets[p]));
  return held;
}

std::size_t held_bytes(HeldShare share, std::span<const BudgetedRows> attrs) {
  std::int64_t bytes = 0;
  for (const BudgetedRows& attr : attrs)
    for (const std::int64_t rows : held_rows(share, attr.partition_offsets)) {
      const std::int64_t part = saturating_product(rows, attr.row_bytes);
      bytes = saturating_sum(bytes, (part + kPartAlignment - 1) / kPartAlignment * kPartAlignment);
    }
  return static_cast<std::size_t>(bytes);
}

HeldShare fit_share(const CacheSize& cache, std::span<const BudgetedRows> attrs, std::size_t free) {
  require_valid(cache.ratio >= 0 && cache.ratio <= 1,
                fmt::format("{} is {}; give a share from 0 to 1, a size (4G) or auto", kOption, cache.ratio));
  if (cache.automatic) return largest_share(attrs, cache.within(free / kAutomaticShare));
  if (cache.bytes == 0) {
    const HeldShare share{.millionths = static_cast<std::uint32_t>(
                              std::lround(cache.ratio * static_cast<double>(HeldShare::kAll)))};
    const std::size_t needed = held_bytes(share, attrs);
    if (needed > free)
      throw Error(ErrorCode::kNoSpace,
                  fmt::format("{} is {}, which takes {} of the GPU's memory, and {} of it are free; give a "
                              "smaller share, a size (4G) or auto",
                              kOption, cache.ratio, format_bytes(needed), format_bytes(free)));
    return share;
  }
  if (cache.bytes > free)
    throw Error(ErrorCode::kNoSpace,
                fmt::format("{} is {}, and {} of the GPU's memory are free; give less, a share (0.2) or auto",
                            kOption, format_bytes(cache.bytes), format_bytes(free)));
  const HeldShare share = largest_share(attrs, cache.bytes);
  if (!share.any() && held_bytes({.millionths = HeldShare::kAll}, attrs) > 0)
    throw Error(ErrorCode::kNoSpace,
                fmt::format("{} is {}, which has no room for one row of each partition; give more, or 0 to "
                            "hold none",
                            kOption, format_bytes(cache.bytes)));
  return share;
}

}  // namespace hopfeed::gpu
