// Measures what this machine's threads can do of a batch: sampling, gathering, completing, taking the digest.
// It measures while all of it goes on at once, as in an epoch: workers make batches, a consumer takes them;
// threads that share caches and memory are slower than one alone. Times are seconds on a core (CPU time), so
// that what else runs on the machine counts little.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "core/batch/batch_options.h"
#include "core/batch/held_share.h"
#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

struct RehearsalOptions {
  BatchOptions batch;
  std::int64_t batch_size = 1024;
  int node_type = 0;  // of the seeds
  int workers = 2;    // threads that make batches; fewer where cores or memory are
  double seconds = 2;
  /// Batches are packed for a consumer that holds so much, and completes them; none: they are whole.
  HeldShare held = {};
  std::size_t held_bytes = std::size_t{512} << 20;  // held rows take at most that; `held` is cut
  bool digest = false;                              // the consumer takes the digest of each batch
  FeatureSourceFactory make_source;
  std::uint64_t seed = 0;
  std::function<void(double done, double total)> progress = {};  // seconds; may throw to stop
};

struct Rehearsal {
  std::int64_t batches = 0;
  // These are medians of one thread's seconds on a core; 0 where it was not done.
  double sample_seconds = 0;
  double gather_bytes_per_second = 0;
  double complete_bytes_per_second = 0;  // of the whole batch
  double digest_bytes_per_second = 0;
};

/// `seeds` are original ids. Throws what BatchMaker throws.
Rehearsal rehearse(const Dataset& dataset, std::span<const std::int64_t> seeds,
                   const RehearsalOptions& options);

/// Returns the seconds on a core, of the calling thread and of the whole process.
double thread_cpu_seconds();
double process_cpu_seconds();
/// Returns how many cores this process may use.
int usable_cores();

/// Returns the bytes of float32 a second that a thread makes of rows that are stored otherwise (of int8; half
/// floats are as fast, since it is the writing that takes the time).
double convert_rate();

}  // namespace hopfeed
