// hopfeed-bench channel: what the way from a worker's publication to the trainer's view costs, whatever the
// batch's size; how many small batches pass in a second; and what waiting costs.
//
// The limits are what the machine takes to wake a thread that sleeps on a futex, and how many of the small
// batches one thread makes that hands them to nobody; both just before and just after.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <thread>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/worker_mode/batch_verifier.h"
#include "channel/futex.h"
#include "core/base/scratch.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace {

constexpr std::int64_t kWarmBatches = 16;

double at(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  const auto index = static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

// User and system time of a process so far.
double cpu_seconds(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // behind the name, which may hold anything
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

LoaderOptions loader_options(const BenchOptions& options) {
  LoaderOptions loader;
  loader.dataset = dataset_folder(options).string();
  loader.batch = {.fanouts = options.fanouts, .edge_ids = options.edge_ids};
  loader.deal.batch_size = options.batch_size;
  loader.execution.num_workers = 1;  // one, so that the trainer is there before the batch is
  // A worker that is stopped to be waited for is not taken for hung.
  loader.execution.batch_deadline =
      std::chrono::seconds(60) + std::chrono::seconds(static_cast<std::int64_t>(options.seconds));
  loader.execution.huge_pages = options.huge_pages;
  return loader;
}

// Seeds and their ids only, a block of about a kilobyte; in order, since a shuffle costs more than such a
// batch.
LoaderOptions small_batches(const BenchOptions& options) {
  LoaderOptions loader = loader_options(options);
  loader.batch = {.fanouts = {}, .attrs = std::vector<std::string>{}};
  loader.deal.batch_size = std::min<std::int64_t>(options.batch_size, 8);
  loader.shuffle = false;
  loader.execution.num_slots = 32;
  return loader;
}

// Microseconds from a bump to the thread that slept on it.
double median_wake_us() {
  constexpr int kWakes = 200;
  std::atomic<std::uint32_t> event{0};
  std::atomic<double> woken{0};
  std::vector<double> us;
  std::thread sleeper([&] {
    for (std::uint32_t seen = 0; seen < kWakes; ++seen) {
      while (event.load() == seen) futex_wait(event, seen, std::chrono::seconds(1));
      woken = now();
    }
  });
  for (int i = 0; i < kWakes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until the other sleeps
    woken = 0;
    const double begin = now();
    futex_bump(event);
    while (woken == 0) __builtin_ia32_pause();
    us.push_back(1e6 * (woken - begin));
  }
  sleeper.join();
  return at(std::move(us), 0.5);
}

// Made one after the other and handed to nobody.
double batches_made_per_s(const LoaderOptions& options, double seconds) {
  const Dataset dataset(options.dataset, {.huge_pages = options.execution.huge_pages});
  const NodeList seeds(dataset.split(0, options.split), {.node_type = 0, .shuffle = options.shuffle});
  BatchMaker maker(dataset, seeds, options.batch);
  ScratchArray<std::byte> block;
  const std::int64_t per_epoch = std::max<std::int64_t>(1, seeds.size() / options.deal.batch_size);
  return rate(1, seconds,
              [&](int, std::int64_t repetition) {
                const std::size_t bytes =
                    maker.sample({.seed = options.seed,
                                  .epoch = repetition / per_epoch,
                                  .first = repetition % per_epoch * options.deal.batch_size,
                                  .count = std::min(options.deal.batch_size, seeds.size())});
                block.reserve(bytes);
                maker.write({block.data(), bytes});
                return 1;
              })
      .per_s;
}

struct Run {
  double seconds = 0, batches = 0, bytes = 0;
  double cpu_seconds = 0;           // of loader and worker
  std::vector<double> handover_us;  // of batches that next() was already waiting for
  std::int64_t verified = 0;
};

Run take_batches(const LoaderOptions& options, double seconds, bool verify) {
  Loader loader(options);
  std::optional<BatchVerifier> verifier;
  if (verify) verifier.emplace(options);
  Run run;
  const auto used = [&] { return cpu_seconds(getpid()) + cpu_seconds(loader.worker_pids()[0]); };
  std::int64_t taken = 0;
  double begin = 0, used_before = 0;
  for (std::int64_t epoch = 0; begin == 0 || now() - begin < seconds; ++epoch) {
    loader.begin_epoch(epoch);
    for (;;) {
      const double asked = now();
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      stop_if_asked();
      if (++taken == kWarmBatches) begin = now(), used_before = used();
      if (taken < kWarmBatches && verifier) verifier->check(batch->view());
      if (taken <= kWarmBatches) continue;
      const BatchTimes times = batch->times();
      if (times.published > asked) run.handover_us.push_back(1e6 * (times.taken - times.published));
      run.batches += 1;
      run.bytes += static_cast<double>(batch->view().bytes().size());
      if (now() - begin >= seconds) break;
    }
  }
  run.seconds = now() - begin;
  run.cpu_seconds = used() - used_before;
  run.verified = verifier ? verifier->checked() : 0;
  return run;
}

// All slots are full and nobody takes: the share of a core that loader and workers use meanwhile.
double idle_cpu_fraction(const LoaderOptions& options, double seconds) {
  Loader loader(options);
  loader.begin_epoch(0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until the other slots are full
  const auto used = [&] {
    double sum = cpu_seconds(getpid());
    for (int pid : loader.worker_pids()) sum += cpu_seconds(pid);
    return sum;
  };
  const double before = used(), begin = now();
  std::this_thread::sleep_for(
      std::chrono::duration<double>(std::max(seconds, 1.0)));  // the clock ticks in hundredths
  return (used() - before) / (now() - begin);
}

// next() waits for a worker that has been stopped: the share of a core that the trainer uses meanwhile.
double waiting_cpu_fraction(const LoaderOptions& options, double seconds) {
  Loader loader(options);
  const std::vector<int> pids = loader.worker_pids();
  for (int pid : pids) ::kill(pid, SIGSTOP);
  loader.begin_epoch(0);
  std::future<void> trainer = std::async(std::launch::async, [&] { loader.next(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it sleeps
  const double before = cpu_seconds(getpid()), begin = now();
  std::this_thread::sleep_for(std::chrono::duration<double>(std::max(seconds, 1.0)));
  const double used = (cpu_seconds(getpid()) - before) / (now() - begin);
  for (int pid : pids) ::kill(pid, SIGCONT);
  trainer.get();
  return used;
}

}  // namespace

Report bench_channel(const BenchOptions& options) {
  const LoaderOptions smallest = small_batches(options);
  const double wake_before = median_wake_us();
  const Run large = take_batches(loader_options(options), options.seconds, options.verify);
  const double wake_us = (wake_before + median_wake_us()) / 2,
               made_before = batches_made_per_s(smallest, options.seconds / 2);
  const Run small = take_batches(smallest, options.seconds, options.verify);
  const double made_per_s = (made_before + batches_made_per_s(smallest, options.seconds / 2)) / 2;
  const double handover_us = at(large.handover_us, 0.5), batches_per_s = small.batches / small.seconds;
  return {{"bytes_per_batch", large.bytes / large.batches},
          {"bytes_per_s", large.bytes / large.seconds},
          {"handover_us_median", handover_us},
          {"handover_us_p99", at(large.handover_us, 0.99)},
          {"handovers", large.handover_us.size()},
          {"limit_handover_us", wake_us},
          {"fraction_of_limit", handover_us > 0 ? wake_us / handover_us : 0},
          {"small_bytes_per_batch", small.bytes / small.batches},
          {"batches_per_s", batches_per_s},
          {"limit_batches_per_s", made_per_s},
          {"small_fraction_of_limit", batches_per_s / made_per_s},
          {"small_cpu_us_per_batch", 1e6 * small.cpu_seconds / small.batches},
          {"small_handover_us_median", at(small.handover_us, 0.5)},
          {"small_handover_us_p99", at(small.handover_us, 0.99)},
          {"idle_cpu_fraction", idle_cpu_fraction(smallest, options.seconds)},
          {"waiting_cpu_fraction", waiting_cpu_fraction(smallest, options.seconds)},
          {"verified_batches", large.verified + small.verified}};
}

}  // namespace hopfeed::bench
