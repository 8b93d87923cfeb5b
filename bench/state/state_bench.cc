// hopfeed-bench state: rows that two servers own, over loopback, held against what this machine allows,
// measured in the same run and by turns: a bare loop with the same checksums, a bare gather, a table that
// lies whole at each rank, a bare write.
//
// docs/benchmarks.md says what each key means. The servers are programs; ranks are threads of this process,
// each with connections of its own.
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/state/kept_rows.h"
#include "bench/state/learned_rows.h"
#include "bench/state/moved_rows.h"
#include "bench/state/state_servers.h"
#include "bench/state/steps.h"
#include "core/base/error.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

/// A folder that is gone at the end, with all that is in it.
class Folder {
 public:
  explicit Folder(const fs::path& parent) {
    fs::create_directories(parent);
    path_ = (parent / "state-XXXXXX").string();
    if (!::mkdtemp(path_.data())) throw_errno("cannot make a folder in " + parent.string(), errno);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

/// Of state at each server: half of the rows, with SparseAdam's state, and the sums that are held of steps.
std::size_t memory_of(const BenchOptions& options) {
  const auto row = static_cast<std::size_t>(options.width) * sizeof(float);
  return static_cast<std::size_t>(options.rows / 2 + 1) * (3 * row + sizeof(std::uint32_t)) +
         static_cast<std::size_t>(options.rows) / kParts * 2 * row + (std::size_t{256} << 20) +
         static_cast<std::size_t>(8 * options.ids) * row;
}

/// Of rows that one rank has learned.
void measure_learned(const BenchOptions& options, const fs::path& data, const Dataset& dataset,
                     const Folder& folder, Report& report) {
  const auto wanted = [&](const char* part) { return options.part == "all" || options.part == part; };
  if (!wanted("pull") && !wanted("memory") && !wanted("checkpoint")) return;
  const StateServers servers(data, folder.path(), memory_of(options));
  const std::size_t before = servers.own_bytes();
  LearnedRows rows(servers, dataset, options.width, /*ranks=*/1);
  if (wanted("memory"))
    measure_memory(servers, before, rows, report);
  else
    rows.learn_all();
  if (wanted("pull")) measure_pull(options, servers, dataset, rows, report);
  if (wanted("checkpoint")) measure_checkpoint(options, folder.path(), rows, report);
}

}  // namespace

Report bench_state(const BenchOptions& options) {
  const fs::path data = nodes_folder(options.rows);
  const Dataset dataset(data);
  const Folder folder(options.folder.empty() ? cache_folder() : fs::path(options.folder));
  Report report{
      {"rows", options.rows},
      {"width", options.width},
      {"ids", options.ids},
      {"simulated", "one table stands for those of all ranks, and copies in memory for their exchange"}};
  const auto wanted = [&](const char* part) { return options.part == "all" || options.part == part; };
  measure_learned(options, data, dataset, folder, report);
  if (wanted("push"))
    measure_push(options, StateServers(data, folder.path(), memory_of(options)), dataset, report);
  if (wanted("step"))
    for (const auto& [ranks, name] : {std::pair{1, "one_rank"}, {2, "two_ranks"}, {4, "four_ranks"}}) {
      const StateServers servers(data, folder.path(), memory_of(options));
      LearnedRows rows(servers, dataset, options.width, ranks);
      rows.learn_all();
      report[name] = measure_steps(options, servers, dataset, rows);
    }
  return report;
}

}  // namespace hopfeed::bench
