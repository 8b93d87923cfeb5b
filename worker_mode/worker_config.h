// A WorkerConfig is what a worker is told: a line of JSON in a memfd, and inherited file descriptors under
// fixed numbers. The loader writes one per start; hopfeed-worker reads it. Both come from one build, so there
// is no version in it. A loader's worker has one job, which is told here; a server's asks for each job that
// it is to serve (job_files.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/batch_spec.h"
#include "stream/local_execution.h"

namespace hopfeed {

/// These descriptors are inherited; nothing else stays open in a worker.
inline constexpr int kChannelFd = 3;   // sealed memfd
inline constexpr int kConfigFd = 4;    // memfd with WorkerConfig as JSON
inline constexpr int kDoorbellFd = 5;  // eventfd of the supervisor
inline constexpr int kSeedsFd = 6;     // memfd of BatchSource::pack(); only where the spec names given seeds
inline constexpr int kJobsFd = 6;      // a server's worker: socket on which it asks for jobs (job_files.h)

/// A worker that only tries a plugin or its sampler (plugin_trial.h) has this descriptor, and no channel: a
/// memfd for kTrialPassed, or for what the plugin's constructors threw.
inline constexpr int kTrialFd = 3;
inline constexpr std::string_view kTrialPassed = "passed";
inline constexpr std::size_t kMaxTrialReport = 4096;

struct WorkerConfig {
  std::string dataset;           // absolute path of the folder
  std::uint64_t manifest = 0;    // manifest_hash() of what is in it
  BatchSpec spec;                // given seeds are inherited
  LocalExecution execution;      // plugins, cores and program are told otherwise
  std::uint32_t worker = 0;      // number of its record in the channel
  std::int64_t parent = 0;       // pid of the loader's process
  std::vector<int> cores;        // it runs on these; empty: anywhere
  bool asks_for_jobs = false;    // dataset, manifest and spec are not read: a server's worker, with kJobsFd
  int row_cache_fd = -1;         // inherited, of what make_dynamic_cache() made; -1: none, or jobs bring it
  std::string device_room = {};  // gpu/device/worker_room.h: batches lie on that device; empty: on the host
  int device = 0;                // its number, as CUDA counts
  std::int64_t gpu_cache_sharers = 1;  // workers that hold rows on that device
  int device_fd = -1;                  // inherited, of the channel's part there
  std::size_t max_scratch = 0;         // bytes that makers of several jobs may keep; 0: any
  /// The scratch of a batch may take so many bytes; by default any.
  std::size_t batch_memory = std::numeric_limits<std::size_t>::max();

  std::string to_json() const;
  /// Reads the configuration. Throws kCorrupt.
  static WorkerConfig from_json(const std::string& text);
};

}  // namespace hopfeed
