// See slot_waits.h.
#include "stream/slot_waits.h"

#include <algorithm>

#include "channel/futex.h"

namespace hopfeed {

WaitStages split_wait(std::int64_t begin, std::int64_t end, const SlotTimes& times) {
  const std::int64_t sampled = std::clamp(times.sampled, begin, end),
                     gathered = std::clamp(times.gathered, sampled, end);
  return {.sampling = sampled - begin, .gather = gathered - sampled, .handover = end - gathered};
}

WaitTimes wait_times(const ChannelView& view) {
  const auto seconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  const LoaderRecord& loader = view.control().loader;
  WaitTimes waits{.for_sampling = seconds(loader.waited_for_sampling.load()),
                  .for_gather = seconds(loader.waited_for_gather.load()),
                  .for_handover = seconds(loader.waited_for_handover.load())};
  const std::int64_t now = monotonic_now();
  for (std::uint32_t i = 0; i < view.shape().num_workers; ++i) {
    const WorkerRecord& worker = view.worker(i);
    const std::int64_t since = worker.waiting_since.load();
    waits.for_slot += seconds(worker.waited_for_slot.load() + (since == 0 ? 0 : now - since));
    waits.for_memory += seconds(worker.waited_for_grant.load());
  }
  return waits;
}

TierCounts tiers_of(const ChannelView& view) {
  TierCounts::Numbers sum{};
  for (std::uint32_t w = 0; w < view.shape().num_workers; ++w)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += view.worker(w).tiers[i].load();
  return TierCounts::of(sum);
}

}  // namespace hopfeed
