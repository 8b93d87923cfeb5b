// See partition_nodes.h. METIS's arrays come from undirected_graph.h; METIS itself runs in a process of its
// own.
#include <fcntl.h>
#include <fmt/format.h>
#include <metis.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <type_traits>

#include "core/base/error.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/undirected_graph.h"

namespace hopfeed {
namespace {

static_assert(std::is_same_v<idx_t, std::int32_t>, "built for the METIS of Debian, with 32-bit numbers");

/// What METIS balances, each by itself: the nodes of every type that has a twentieth of all nodes, those of
/// the other types together where they have as many, and the training nodes. Balancing small types too cuts
/// many more edges for nothing (measured on Debian's graph in 4 parts, where tags and maintainers are 3% of
/// the nodes: 25% of the edges instead of 19%).
struct Balance {
  idx_t constraints = 0;
  std::vector<idx_t> weights;  // [N][constraints]
};

Balance balance_of(const RawGraph& graph) {
  const std::int64_t enough = graph.num_nodes() / 20;
  const std::vector<std::int64_t> train = graph.training_nodes();
  Balance balance;
  std::vector<idx_t> constraint_of(graph.nodes.size(), -1);
  std::int64_t small = graph.num_nodes();
  for (std::size_t t = 0; t < graph.nodes.size(); ++t) {
    if (graph.nodes[t].count < std::max<std::int64_t>(enough, 1)) continue;  // METIS divides by their number
    constraint_of[t] = balance.constraints++;
    small -= graph.nodes[t].count;
  }
  if (small > 0 && small >= enough) std::ranges::replace(constraint_of, -1, balance.constraints++);
  const idx_t of_train = train.empty() ? -1 : balance.constraints++;
  balance.weights.resize(graph.num_nodes() * balance.constraints);
  for (int t = 0; t < static_cast<int>(graph.nodes.size()); ++t) {
    if (constraint_of[t] < 0) continue;
    for (std::int64_t v = graph.first_node(t); v < graph.first_node(t + 1); ++v)
      balance.weights[v * balance.constraints + constraint_of[t]] = 1;
  }
  for (const std::int64_t v : train) balance.weights[v * balance.constraints + of_train] = 1;
  return balance;
}

/// What METIS is given and gives back. It lies in memory that the process which runs METIS shares with ours.
struct MetisAnswer {
  int status;
  idx_t partition_of[1];  // [N]
};

class SharedAnswer {
 public:
  explicit SharedAnswer(std::int64_t num_nodes)
      : bytes_(sizeof(MetisAnswer) + static_cast<std::size_t>(num_nodes) * sizeof(idx_t)),
        at_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw_errno("cannot get memory for METIS's answer", errno);
  }
  ~SharedAnswer() { ::munmap(at_, bytes_); }
  SharedAnswer(const SharedAnswer&) = delete;
  SharedAnswer& operator=(const SharedAnswer&) = delete;
  MetisAnswer& operator*() { return *static_cast<MetisAnswer*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

/// Runs `work` in a forked copy of this process and calls `wait` now and then meanwhile; where that throws,
/// the copy is killed. METIS cannot be interrupted, takes many times the memory of the graph, and complains
/// on standard output: all that stays in the copy. Where no more processes may be started (ulimit -u) it runs
/// here all the same. Only for callers that have no other threads at the moment. Returns the status as
/// waitpid gives it.
int run_in_copy(const std::function<void()>& work, const std::function<void()>& wait) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), copy = ::fork();
  if (copy < 0 && errno == EAGAIN) {
    work();
    return 0;
  }
  if (copy < 0) throw_errno("cannot start a process for METIS", errno);
  if (copy == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);  // the parent decides
    const int nowhere = ::open("/dev/null", O_WRONLY);
    if (::getppid() != parent || nowhere < 0) ::_exit(1);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    work();
    ::_exit(0);
  }
  int status = 0;
  try {
    while (::waitpid(copy, &status, WNOHANG) == 0) {
      wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (...) {
    ::kill(copy, SIGKILL);
    ::waitpid(copy, &status, 0);
    throw;
  }
  return status;
}

/// METIS's generator is the C library's, to which seeds 0 and 1 are the same, and whose first draws from 2^31
/// - 1 are hardly random: 1 to 2^31 - 2 are each their own.
idx_t metis_seed(std::uint64_t seed) {
  constexpr std::uint64_t kSeeds = 0x7FFF'FFFE;
  return static_cast<idx_t>(seed % kSeeds == 0 ? kSeeds : seed % kSeeds);
}

}  // namespace

std::vector<std::int32_t> partition_by_metis(const RawGraph& graph, const PartitionOptions& options,
                                             const Progress& progress) {
  const auto nodes = static_cast<std::uint64_t>(graph.num_nodes());
  std::vector<std::int32_t> partition_of(graph.num_nodes());
  if (options.partitions == 1) return partition_of;
  progress({"Partitioning with METIS", "nodes", 0, nodes});
  UndirectedGraph undirected = symmetrise(graph, options);
  idx_t count = static_cast<idx_t>(graph.num_nodes()), parts = options.partitions, cut = 0;
  Balance balance = balance_of(graph);
  std::vector<real_t> imbalance(balance.constraints, 1.05F);
  idx_t settings[METIS_NOPTIONS];
  METIS_SetDefaultOptions(settings);
  settings[METIS_OPTION_NUMBERING] = 0;
  settings[METIS_OPTION_SEED] = metis_seed(options.seed);
  SharedAnswer shared(graph.num_nodes());
  MetisAnswer& answer = *shared;
  const int ended = run_in_copy(
      [&] {
        answer.status = METIS_PartGraphKway(&count, &balance.constraints, undirected.offsets.data(),
                                            undirected.neighbours.data(), balance.weights.data(), nullptr,
                                            undirected.weights.data(), &parts, nullptr, imbalance.data(),
                                            settings, &cut, answer.partition_of);
      },
      [&] {
        progress({"Partitioning with METIS", "nodes", 0, nodes});
      });
  const int status = answer.status;
  if (ended != 0 || status == METIS_ERROR_MEMORY)  // killed, most likely by the kernel for want of memory
    throw Error(ErrorCode::kNoSpace, "METIS ran out of memory; use --method random or a machine with more");
  if (status != METIS_OK)
    throw Error(ErrorCode::kNoSpace,
                fmt::format("METIS gave up (status {}), most often for want of memory; use --method random "
                            "or a machine with more",
                            status));
  std::copy_n(answer.partition_of, partition_of.size(), partition_of.begin());
  progress({"Partitioning with METIS", "nodes", nodes, nodes});
  return partition_of;
}

void require_no_empty_partition(const std::vector<std::int32_t>& partition_of, int partitions,
                                const std::string& method) {
  std::vector<char> filled(static_cast<std::size_t>(partitions));
  for (std::int32_t p : partition_of) filled[p] = 1;
  const auto empty = std::count(filled.begin(), filled.end(), 0);
  if (empty == 0) return;
  throw Error(ErrorCode::kInvalid,
              method == "metis"
                  ? fmt::format("METIS left {} of {} partitions without a node; use fewer --parts or "
                                "--method random",
                                empty, partitions)
                  : fmt::format("{} of {} partitions would have no node, since the nodes of each type are "
                                "dealt by themselves and there are few; use fewer --parts",
                                empty, partitions));
}

}  // namespace hopfeed
