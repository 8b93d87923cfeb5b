// See channel_sizing.h.
#include "stream/channel_sizing.h"

#include <fmt/format.h>

#include <algorithm>

#include "channel/memory.h"
#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMaxAddressSpace = std::size_t{1}
                                         << 45;  // for the slots of one channel; it costs nothing

// So much is given without being asked for: where batches are so small that memory for all slots costs no
// more, giving and taking pages back would cost more than the batches.
constexpr std::size_t kSmallChannel = std::size_t{64} << 20;

std::size_t slot_stride(std::size_t worst_block, std::int64_t num_slots) {
  const std::size_t largest =
      std::min(kMaxBlockBytes, kMaxAddressSpace / static_cast<std::size_t>(num_slots));
  const std::size_t bytes = std::clamp(worst_block, kPageBytes, largest);
  return round_up(bytes, bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes);
}

}  // namespace

ChannelPlan plan_channel(const LocalExecution& options, bool bounded, const SizingInput& input) {
  const std::int64_t num_workers =
      std::max<std::int64_t>(options.num_workers, 1);  // the calling thread is one
  const bool ahead = options.num_workers > 0;          // which samples none ahead
  const std::int64_t window = ahead ? options.batches_ahead(input.batch_size) : 0;
  const std::int64_t slots = options.num_slots != 0
                                 ? options.num_slots
                                 : std::min(kMaxSlots, (2 + window) * options.num_workers + 2);
  ChannelPlan plan;
  std::size_t largest = input.worst_block;
  if (input.device && !bounded)
    largest = std::min(largest, input.device->bytes / 4 * 3 / static_cast<std::size_t>(slots));
  plan.shape = {.num_slots = static_cast<std::uint32_t>(slots),
                .num_workers = static_cast<std::uint32_t>(num_workers),
                .slot_stride = slot_stride(largest, slots)};
  if (input.device) {
    require_memory(ChannelView::bytes_needed(plan.shape), *input.device,
                   fmt::format("a channel in a GPU's memory (slots for {} batches of {} at most)", slots,
                               format_bytes(plan.shape.slot_stride)),
                   fmt::format("lower num_slots, {} or {}", marked("batch_size"), marked("fanouts")));
  }
  AvailableMemory available = input.available;
  if (input.local_world > 1) {
    available.bytes /= static_cast<std::uint64_t>(input.local_world);
    available.source += fmt::format(", shared by {} ranks", input.local_world);
  }
  const std::size_t stride = plan.shape.slot_stride, share = available.bytes;
  const auto workers = static_cast<std::size_t>(num_workers);
  plan.pool.channel_size = options.channel_size;
  if (options.channel_size == 0) {
    const std::size_t quarter = std::max(kPageBytes, share / 4);
    const std::size_t four_each = stride > quarter / (4 * workers) ? quarter : 4 * workers * stride,
                      all_slots = std::min(static_cast<std::size_t>(slots) * stride, kSmallChannel);
    plan.pool.channel_size = std::min(quarter, std::max(four_each, all_slots));
  }
  plan.pool.allowance = stride;
  const std::size_t scratch = (bounded ? input.scratch.at_most : input.scratch.tables) *
                              (1 + static_cast<std::size_t>(window));  // of each worker
  if (!bounded) {
    const std::size_t most = share / 4 * 3, taken = plan.pool.channel_size + workers * scratch;
    plan.pool.allowance = std::min(stride, std::max(kPageBytes, most - std::min(most, taken)));
  }
  // Beyond this the sum could wrap, and no machine has it.
  if (plan.pool.channel_size > kMaxAddressSpace) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} is {}; at most {}", marked("channel_size"),
                            format_bytes(plan.pool.channel_size), format_bytes(kMaxAddressSpace)));
  }
  const std::size_t row_cache =  // one for all ranks
      options.features.row_cache_bytes / static_cast<std::size_t>(std::max(1, input.local_world));
  plan.needed = ChannelView::fixed_bytes(plan.shape) + plan.pool.channel_size + plan.pool.allowance +
                workers * scratch + row_cache;
  require_memory(
      plan.needed, available,
      fmt::format("the loader ({} {}, one worst-case batch of {}{})", marked("channel_size"),
                  format_bytes(plan.pool.channel_size), format_bytes(plan.pool.allowance),
                  scratch == 0
                      ? std::string()  // nobody samples here
                      : fmt::format(", scratch of {} x {} for the workers", workers, format_bytes(scratch))),
      row_cache > 0 ? fmt::format("lower {}, {}, {} or {}", marked("row_cache_bytes"), marked("channel_size"),
                                  marked("num_workers"), marked("batch_size"))
                    : fmt::format("lower {}, {}, {} or {}", marked("channel_size"), marked("num_workers"),
                                  marked("batch_size"), marked("fanouts")));
  return plan;
}

}  // namespace hopfeed
