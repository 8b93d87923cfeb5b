// hopfeed-bench loader --graph-mode: whole batches that a GPU samples, to a trainer that only takes them;
// with
// --device-batches they lie in the GPU's memory, else in the slots of shared memory. Where the time of a
// batch went is the medians of what the loader tells of each (BatchTimes).
#include <algorithm>
#include <optional>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/worker_mode/batch_verifier.h"
#include "core/base/error.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace {

constexpr std::int64_t kVerified = 4;

/// Milliseconds of one stage of each batch.
class Stage {
 public:
  void add(double from, double to) { ms_.push_back(1e3 * (to - from)); }
  double median() {
    if (ms_.empty()) return 0;
    const auto middle = ms_.begin() + std::ssize(ms_) / 2;
    std::nth_element(ms_.begin(), middle, ms_.end());
    return *middle;
  }

 private:
  std::vector<double> ms_;
};

}  // namespace

Report bench_device_loader(const BenchOptions& options) {
  Stage sampling, granting, writing, publishing, handing_over;
  bool counts = false;
  LoaderOptions o{.dataset = dataset_folder(options).string(),
                  .batch = {.fanouts = options.fanouts, .edge_ids = options.edge_ids},
                  .deal = {.batch_size = options.batch_size}};
  o.seed = 1;
  o.execution.num_workers = options.threads;
  o.execution.gpu.graph_mode = options.graph_mode;
  o.execution.gpu.gpu_device = options.gpu_device;
  o.execution.gpu.device_batches = options.device_batches;
  o.execution.gpu.gpu_graph_cache = options.gpu_graph_cache;
  o.observer = [&](const BatchRecord& record) {
    if (!counts) return;
    const BatchTimes& t = record.times;
    sampling.add(t.claimed, t.sampled);
    granting.add(t.sampled, t.writing);
    writing.add(t.writing, t.gathered);
    publishing.add(t.gathered, t.published);
    handing_over.add(t.published, t.taken);
  };
  Loader loader(o);
  std::optional<BatchVerifier> verifier;
  if (options.verify) verifier.emplace(o);
  const std::int64_t warm = 40 * std::max(1, options.threads);
  std::int64_t taken = 0;
  double begin = 0, bytes = 0, end = 0;
  for (std::int64_t epoch = 0; end == 0; ++epoch) {
    loader.begin_epoch(epoch);
    require_valid(loader.steps() > 0,
                  o.dataset + " has no seeds in its split train; name another with --data");
    while (const std::optional<Batch> batch = loader.next()) {
      if (verifier && taken < kVerified) verifier->check(batch->view());
      if (++taken == warm) {
        begin = now();
        counts = true;
      }
      const BatchView head = batch->device_form() != nullptr ? batch->device_form()->head : batch->view();
      if (taken > warm) bytes += static_cast<double>(head.bytes().size());
      if (begin != 0 && now() - begin >= options.seconds) {
        end = now();
        break;
      }
    }
  }
  const StreamStats stats = loader.stats();
  const double batches = static_cast<double>(taken - warm), seconds = end - begin;
  return {{"num_workers", options.threads},           {"graph_mode", to_string(options.graph_mode)},
          {"device_batches", options.device_batches}, {"batches_per_s", batches / seconds},
          {"bytes_per_s", bytes / seconds},           {"bytes_per_batch", bytes / batches},
          {"sampling_ms", sampling.median()},         {"waiting_for_slot_ms", granting.median()},
          {"writing_ms", writing.median()},           {"publishing_ms", publishing.median()},
          {"handing_over_ms", handing_over.median()}, {"device_rows", stats.tiers.device_rows},
          {"rows_over_uva", stats.tiers.memory_rows}};
}

}  // namespace hopfeed::bench
