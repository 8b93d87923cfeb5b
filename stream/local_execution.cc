// See local_execution.h.
#include "stream/local_execution.h"

#include <fmt/format.h>

#include <sched.h>
#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "core/base/field_visitor.h"
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

void LocalExecution::visit(FieldVisitor& fields) {
  fields.whole({.name = "num_workers",
                .help = "Sampling processes of each trainer; 0: it samples itself",
                .group = "workers",
                .of_workers = true},
               num_workers, {0, kMaxWorkers});
  fields.bytes({.name = "channel_size",
                .help = "Bytes that batches in shared memory may take; 0: by the memory available",
                .group = "workers"},
               channel_size);
  fields.bytes(
      {.name = "max_batch_memory",
       .help = "Bytes that a worker may sample with; a batch that needs more is an error in its place; 0: "
               "what is free, divided by the workers",
       .group = "workers",
       .of_workers = true},
      max_batch_memory);
  fields.whole({.name = "num_slots",
                .help = "Batches planned ahead; 0: two for each worker and two more",
                .option = ""},
               num_slots, {0, kMaxSlots});
  fields.numbers(
      {.name = "cores",
       .help = "Cores of the workers, dealt in turn; default: shared out so that ranks, workers and "
               "trainers do not fight",
       .group = "cores",
       .of_workers = true},
      cores);
  fields.choice(
      {.name = "huge_pages",
       .help = "2 MiB pages for the dataset: auto asks for them, never does without, always fails without",
       .group = "pages",
       .of_workers = true},
      {.names = {"auto", "never", "always"},
       .get = [this] { return to_string(huge_pages); },
       .set = [this](const std::string& name) { huge_pages = parse_huge_pages(name); }});
  gpu.visit(fields);
  features.visit(fields);
  partitions.visit(fields);
  fields.flag(
      {.name = "check_finite",
       .help = "Refuse a batch with NaN or infinity among its node attributes, naming node and column",
       .group = "check finite"},
      check_finite);
  fields.seconds(
      {.name = "batch_deadline",
       .help = "Seconds for one batch; then its worker is killed, or another server asked, and the batch "
               "made again",
       .option = ""},
      batch_deadline);
  fields.seconds({.name = "start_deadline", .help = "Seconds for the workers to come up", .option = ""},
                 start_deadline);
  fields.whole(
      {.name = "max_worker_restarts",
       .help =
           "Starts of one worker in a row without a batch by any; then the epoch ends with the last cause",
       .option = ""},
      max_worker_restarts, {0, INT32_MAX});
  fields.texts(
      {.name = "plugins",
       .help = "Shared libraries with samplers of one's own; each is tried in a process of its own first",
       .option = "--plugin"},
      plugins);
  fields.text({.name = "worker_program",
               .help = "default: HOPFEED_WORKER, else hopfeed-worker beside this program, else on PATH",
               .option = ""},
              worker_program);
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
