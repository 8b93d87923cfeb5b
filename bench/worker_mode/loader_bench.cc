// hopfeed-bench loader: whole batches, features included, from sampling worker processes to a trainer that
// only takes them.
//
// The limit is what the workers would reach if they did nothing but `sampler --output batch` and `gather`:
// both are measured in the same run, before and after, with as many threads as there are workers. One worker
// and all of them run by turns, since a shared machine drifts: the ratio is the median over the rounds, each
// against the turns of one worker beside it.
#include <algorithm>
#include <vector>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/worker_mode/batch_verifier.h"
#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/maker/batch_maker.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace {

// Milliseconds of CPU that a batch costs without a loader.
double ms_per_batch(const BenchOptions& options) {
  BenchOptions batch = options;
  batch.topology = false;
  return bench_sampler(batch)["ms_per_batch"].get<double>() +
         bench_gather(batch)["ms_per_batch"].get<double>();
}

LoaderOptions loader_options(const BenchOptions& options, int workers) {
  LoaderOptions loader;
  loader.dataset = dataset_folder(options).string();
  loader.batch = {.fanouts = options.fanouts, .edge_ids = options.edge_ids};
  loader.deal.batch_size = options.batch_size;
  loader.seed = 1;
  loader.execution.num_workers = workers;
  loader.execution.huge_pages = options.huge_pages;
  return loader;
}

constexpr int kRounds = 5;

struct LoaderRun {
  double seconds = 0, batches = 0, bytes = 0;
  std::int64_t verified = 0;
  StreamStats stats;  // of the last loader, but `waits` are of all
  double batches_per_s() const { return batches / seconds; }
  LoaderRun& operator+=(const LoaderRun& next) {
    seconds += next.seconds;
    batches += next.batches;
    bytes += next.bytes;
    verified += next.verified;
    WaitTimes waits = stats.waits;
    waits += next.stats.waits;
    stats = next.stats;
    stats.waits = waits;
    return *this;
  }
};

/// Epoch after epoch until the time is over; the first rounds of all slots warm caches and pages and do not
/// count.
LoaderRun run_loader(const LoaderOptions& options, double seconds, bool verify) {
  Loader loader(options);
  std::optional<BatchVerifier> verifier;
  if (verify) verifier.emplace(options);
  LoaderRun run;
  const std::int64_t warm = 3 * (2 * options.execution.num_workers + 2),
                     verified = verify ? std::min<std::int64_t>(warm, 4) : 0;
  std::int64_t taken = 0;
  double begin = 0;
  StreamStats before;
  for (std::int64_t epoch = 0; begin == 0 || now() - begin < seconds; ++epoch) {
    loader.begin_epoch(epoch);
    while (std::optional<Batch> batch = loader.next()) {
      stop_if_asked();
      if (taken < verified) verifier->check(batch->view());
      if (++taken > warm) {
        run.batches += 1;
        run.bytes += static_cast<double>(batch->view().bytes().size());
      } else if (taken == warm) {
        begin = now();
        before = loader.stats();
      }
      if (begin != 0 && now() - begin >= seconds) break;
    }
  }
  run.seconds = now() - begin;
  run.verified = verifier ? verifier->checked() : 0;
  run.stats = loader.stats();
  run.stats.waits = run.stats.waits - before.waits;
  return run;
}

}  // namespace

Report bench_loader(const BenchOptions& options) {
  if (options.graph_mode != GraphMode::kCpu) return bench_device_loader(options);
  require_valid(options.threads > 0 && !options.device_batches,
                "--num-workers 0 and --device-batches are of --graph-mode uva or cuda; give one of them too");
  const double ms_before = ms_per_batch(options), seconds = options.seconds / 2;
  const auto turn = [&](int workers) {
    return run_loader(loader_options(options, workers), seconds, options.verify);
  };
  LoaderRun run;
  std::vector<double> ratios;
  double one_before = options.threads > 1 ? turn(1).batches_per_s() : 0;
  for (int round = 0; round < kRounds; ++round) {
    const LoaderRun all = turn(options.threads);
    run += all;
    const double one_after = options.threads > 1 ? turn(1).batches_per_s() : 0;
    ratios.push_back(options.threads > 1 ? all.batches_per_s() / ((one_before + one_after) / 2) : 1);
    one_before = one_after;
  }
  std::nth_element(ratios.begin(), ratios.begin() + kRounds / 2, ratios.end());
  const double ms = (ms_before + ms_per_batch(options)) / 2, limit = 1e3 * options.threads / ms;
  const double worker_seconds = run.seconds * options.threads;
  return {{"num_workers", options.threads},
          {"batches_per_s", run.batches_per_s()},
          {"bytes_per_s", run.bytes / run.seconds},
          {"bytes_per_batch", run.bytes / run.batches},
          {"ms_per_batch_without_loader", ms},
          {"limit_batches_per_s", limit},
          {"fraction_of_limit", run.batches_per_s() / limit},
          {"times_one_worker", ratios[kRounds / 2]},
          {"wait_fraction", run.stats.waits.trainer() / run.seconds},
          {"workers_waited_for_slot_fraction", run.stats.waits.for_slot / worker_seconds},
          {"workers_waited_for_memory_fraction", run.stats.waits.for_memory / worker_seconds},
          {"channel_bytes", run.stats.channel_bytes},
          {"resident_bytes", run.stats.dataset_pages.resident},
          {"huge_page_bytes", run.stats.dataset_pages.huge},
          {"verified_batches", run.verified}};
}

}  // namespace hopfeed::bench
