// hopfeed-bench startup: how long until a worker is ready, what another worker costs the machine in memory,
// and how long a dataset of 100 GB takes to open. The limit is what the system takes to start and end the
// worker's program when it does nothing.
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/measure.h"
#include "bench/worker_mode/batch_verifier.h"
#include "bench/worker_mode/sparse_dataset.h"
#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

constexpr int kRepetitions = 9;
constexpr std::int64_t kSparseNodes = 250'000'000, kSparseFeatures = 100,
                       kSparseEdges = 1'000'000'000;  // 100 GB of features

template <class Body>
double median_ms(Body body) {
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    stop_if_asked();
    const double begin = now();
    body();
    times.push_back(1e3 * (now() - begin));
  }
  return median(std::move(times));
}

// Memory that exists because of this process alone: what is shared (dataset, channel) is not in it.
std::size_t own_bytes(int pid) {
  std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::size_t kib = 0;
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Pss_Anon:")) kib += std::stoull(line.substr(9));
  }
  return kib * 1024;
}

LoaderOptions startup_options(const BenchOptions& options) {
  LoaderOptions loader;
  loader.dataset = dataset_folder(options).string();
  loader.batch = {.fanouts = options.fanouts, .edge_ids = options.edge_ids};
  loader.deal.batch_size = options.batch_size;
  loader.execution.num_workers = options.threads;
  loader.execution.huge_pages = options.huge_pages;
  return loader;
}

// The worker's program prints its help and ends.
void run_idle_process() {
  std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "hopfeed-worker", help = "--help";
  char* arguments[] = {program.data(), help.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw_errno("cannot start " + program, error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
}

struct TemporaryFolder {
  TemporaryFolder() {
    if (!::mkdtemp(path.data()))
      throw_errno("cannot create a folder in " + fs::temp_directory_path().string(), errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path = (fs::temp_directory_path() / "hopfeed-bench-XXXXXX").string();
};

double open_sparse_ms() {
  const TemporaryFolder folder;
  const fs::path data = fs::path(folder.path) / "data";
  write_sparse_dataset(data, kSparseNodes, kSparseFeatures, kSparseEdges);
  std::int64_t nodes = 0;
  const double ms = median_ms([&] { nodes = Dataset(data).num_nodes(0); });
  if (nodes != kSparseNodes)
    throw Error(ErrorCode::kCorrupt, "the sparse dataset was not opened as it was written");
  return ms;
}

}  // namespace

Report bench_startup(const BenchOptions& options) {
  const LoaderOptions all = startup_options(options);
  LoaderOptions one = all;
  one.execution.num_workers = 1;
  const double dataset_ms =
      median_ms([&] { Dataset dataset(all.dataset, {.huge_pages = options.huge_pages}); });
  const double idle_before = median_ms(run_idle_process);
  const double one_ms = median_ms([&] { Loader loader(one); });
  const double idle_ms = (idle_before + median_ms(run_idle_process)) / 2;
  const double all_ms = options.threads == 1 ? one_ms : median_ms([&] { Loader loader(all); });
  Loader loader(all);
  loader.begin_epoch(0);
  std::optional<BatchVerifier> verifier;
  if (options.verify) verifier.emplace(all);
  for (int i = 0; i < 8 * options.threads; ++i) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    if (verifier && i == 0) verifier->check(batch->view());
  }
  std::size_t largest = 0;
  for (int pid : loader.worker_pids()) largest = std::max(largest, own_bytes(pid));
  return {{"num_workers", options.threads},
          {"open_dataset_ms", dataset_ms},
          {"loader_with_one_worker_ready_and_ended_ms", one_ms},
          {"idle_process_started_and_ended_ms", idle_ms},
          {"fraction_of_limit", idle_ms / one_ms},
          {"loader_with_all_workers_ready_and_ended_ms", all_ms},
          {"worker_own_bytes", largest},
          {"verified_batches", verifier ? verifier->checked() : 0},
          {"open_100_GB_ms", open_sparse_ms()}};
}

}  // namespace hopfeed::bench
