// See hot_prefix.h.
#include "gpu/engine/hot_prefix.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/memory_limits.h"

namespace hopfeed::gpu {
namespace {

/// None where it would be less than a row.
HeldShare largest_share(const EnginePlan& plan, std::size_t bytes) {
  std::uint32_t fits = 0, too_much = HeldShare::kAll + 1;  // bytes grow with the share
  while (too_much - fits > 1) {
    const std::uint32_t middle = fits + (too_much - fits) / 2;
    (hot_bytes(plan, {.millionths = middle}) <= bytes ? fits : too_much) = middle;
  }
  const HeldShare share{.millionths = fits};
  return hot_bytes(plan, share) > 0 ? share : HeldShare{};
}

}  // namespace

HeldShare hot_share(const EnginePlan& plan) {
  const CacheSize& hot = plan.hot;
  if (plan.place == GraphPlace::kDevice || !hot.any()) return {};
  if (hot.automatic) return largest_share(plan, hot.within(plan.free_bytes / kHotShare));
  if (hot.bytes == 0) {
    const HeldShare share{.millionths = static_cast<std::uint32_t>(
                              std::lround(hot.ratio * static_cast<double>(HeldShare::kAll)))};
    const std::size_t needed = hot_bytes(plan, share);
    if (needed > plan.free_bytes)
      throw Error(ErrorCode::kNoSpace,
                  fmt::format("{} is {}, which takes {} of the GPU's memory, and {} of it are free; "
                              "give a smaller share, a size (4G) or auto",
                              marked("gpu_graph_cache"), hot.ratio, format_bytes(needed),
                              format_bytes(plan.free_bytes)));
    return share;
  }
  if (hot.bytes > plan.free_bytes)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("{} is {}, and {} of the GPU's memory are free; give less, a share (0.2) "
                    "or auto",
                    marked("gpu_graph_cache"), format_bytes(hot.bytes), format_bytes(plan.free_bytes)));
  return largest_share(plan, hot.bytes);
}

}  // namespace hopfeed::gpu
