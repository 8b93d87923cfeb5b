// See local_execution.h.
#include "stream/local_execution.h"

#include <fmt/format.h>

#include <sched.h>
#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check_deadline(std::chrono::milliseconds deadline, std::string_view field) {
  require_valid(
      deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
      fmt::format("{} is {} ms; choose 1 to {} (a year)", marked(field), deadline.count(), kMaxDeadlineMs));
}

void check_cores(const LocalExecution& execution) {
  require_valid(execution.cores.empty() || execution.num_workers > 0,
                fmt::format("{0} are of workers ({1}), and there are none: the calling thread makes the "
                            "batches where it runs; leave them out ({0})",
                            marked("cores"), marked("num_workers")));
  for (int core : execution.cores)
    require_valid(core >= 0 && core < CPU_SETSIZE,
                  fmt::format("core {} cannot be; choose 0 to {}", core, CPU_SETSIZE - 1));
}

}  // namespace

std::int64_t LocalExecution::batches_ahead(std::int64_t seeds) const {
  const std::int64_t window = features.window_for(seeds, num_workers, partitions.on());
  return partitions.on() ? std::max(window, partitions.concurrency - 1) : window;
}

void LocalExecution::validate() const {
  require_valid(num_workers >= 0 && num_workers <= kMaxWorkers,
                fmt::format("{} is {}; choose 0 (batches are made in the calling thread) to {}",
                            marked("num_workers"), num_workers, kMaxWorkers));
  require_valid(num_slots >= 0 && num_slots <= kMaxSlots,
                fmt::format("{} is {}; choose 1 to {}, or 0 for as many as the workers need",
                            marked("num_slots"), num_slots, kMaxSlots));
  gpu.validate(num_workers);
  partitions.validate();
  require_valid(
      !partitions.on() || gpu.graph_mode == GraphMode::kCpu,
      fmt::format(
          "a GPU samples where all partitions are on one machine; take graph mode cpu, or leave {} out",
          marked("peers")));
  features.validate(partitions.on());
  require_valid(
      !gpu.device_batches || features.from == FeaturesFrom::kMemory,
      "batches in a GPU's memory have features from memory, and they are to come from files; leave one of "
      "the two out");
  check_deadline(batch_deadline, "batch_deadline");
  check_deadline(start_deadline, "start_deadline");
  require_valid(max_worker_restarts >= 0, fmt::format("{} is {}; choose 0 or more",
                                                      marked("max_worker_restarts"), max_worker_restarts));
  check_cores(*this);
}

}  // namespace hopfeed
