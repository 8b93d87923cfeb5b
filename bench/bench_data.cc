// See bench_data.h.
#include "bench/bench_data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "core/dataset.h"
#include "core/program/progress_bar.h"
#include "partition_tool/dataset_build.h"
#include "partition_tool/generate.h"
#include "partition_tool/node_order.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

fs::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "hopfeed-bench";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/hopfeed-bench";
  return fs::temp_directory_path() / "hopfeed-bench";
}

}  // namespace

fs::path dataset_folder(const BenchOptions& options) {
  if (!options.data.empty()) return options.data;
  const fs::path folder =
      cache_folder() / fmt::format("generated-{}-v{}-{}-{}-{}", kGeneratorVersion, kDatasetVersion,
                                   options.nodes, options.edges, options.features);
  if (fs::exists(folder / "meta.json")) return folder;
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string step;
  std::unique_ptr<ProgressBar> bar;
  const Progress progress = [&](const ProgressReport& state) {
    if (step != state.step) {
      step = state.step;
      bar = std::make_unique<ProgressBar>(step, state.total, ProgressBarOptions{.unit = state.unit});
    }
    bar->set(state.done, state.total);
  };
  const RawGraph graph = generate_graph({.num_nodes = options.nodes,
                                         .num_edges = options.edges,
                                         .num_features = options.features,
                                         .num_classes = 47,
                                         .seed = 1,
                                         .threads = threads},
                                        progress);
  HotnessOptions hotness{.fanouts = options.fanouts, .batch_size = options.batch_size, .threads = threads};
  const NodeOrder order = order_nodes(graph, {}, 1, hotness, progress);
  DatasetWriter writer(folder);
  writer.commit(build_dataset(writer, graph, order,
                              {.cut = {.fanouts = hotness.fanouts, .batch_size = hotness.batch_size},
                               .made_by = "hopfeed-bench",
                               .threads = threads},
                              progress)
                    .meta);
  return folder;
}

}  // namespace hopfeed::bench
