// See bench_data.h.
#include "bench/bench_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "core/dataset/dataset.h"
#include "core/draws/keyed_random.h"
#include "core/program/progress_bar.h"
#include "core/program/stop_signals.h"
#include "partition_tool/convert_attrs.h"
#include "partition_tool/dataset_build.h"
#include "partition_tool/generate.h"
#include "partition_tool/node_order.h"
#include "partition_tool/partition_nodes.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;

fs::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "hopfeed-bench";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/hopfeed-bench";
  return fs::temp_directory_path() / "hopfeed-bench";
}

namespace {

const char* suffix(MadeUp made_up) {
  switch (made_up) {
    case MadeUp::kNothing:
      return "";
    case MadeUp::kWeights:
      return "-weights";
    case MadeUp::kTimes:
      return "-times";
    case MadeUp::kTypes:
      return "-types";
  }
  __builtin_unreachable();
}

/// A number of a node or an edge, for `what`.
std::uint32_t made_up_number(std::int64_t id, std::uint32_t what) {
  return philox(static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32), what, 0, 1).word[0];
}

/// Weights from 1 to 100.
void add_weights(RawGraph& graph) {
  graph.edges[0].attrs.push_back(
      {.name = "weight",
       .type = ElementType::kFloat32,
       .shape = {},
       .read_rows = [](std::int64_t, std::span<const std::int64_t> edge_ids, std::span<std::byte> rows) {
         for (std::size_t i = 0; i < edge_ids.size(); ++i) {
           const auto weight = static_cast<float>(1 + made_up_number(edge_ids[i], 0) % 100);
           std::memcpy(rows.data() + i * sizeof weight, &weight, sizeof weight);
         }
       }});
  graph.edges[0].weights = {"weight"};
}

/// Times below 2^32; as a seed, a node is in the later half of them.
void add_times(RawGraph& graph) {
  const auto add = [&](const char* name, auto time_of) {
    graph.nodes[0].attrs.push_back({.name = name,
                                    .type = ElementType::kInt64,
                                    .shape = {},
                                    .read_row = [time_of](std::int64_t node, std::span<std::byte> row) {
                                      const std::int64_t time = time_of(node);
                                      std::memcpy(row.data(), &time, sizeof time);
                                    }});
  };
  add("time", [](std::int64_t node) { return std::int64_t{made_up_number(node, 1)}; });
  add("seed_time",
      [](std::int64_t node) { return (std::int64_t{1} << 31) + std::int64_t{made_up_number(node, 2)} / 2; });
  graph.edges[0].times = {"time"};
}

/// A graph of as many nodes and edges, in three node types and six edge types: two of them end at each node
/// type.
RawGraph typed_graph(GenerateOptions options, const Progress& progress) {
  constexpr int kNodeTypes = 3, kEdgeTypes = 6;
  options.num_nodes = std::max<std::int64_t>(options.num_classes, options.num_nodes / kNodeTypes);
  options.num_edges /= kEdgeTypes;
  RawGraph graph;
  graph.name = "generated";
  for (int e = 0; e < kEdgeTypes; ++e, ++options.seed) {
    RawGraph part = generate_graph(options, progress);
    const int dst = e / 2, src = (dst + e % 2) % kNodeTypes;
    graph.edges.push_back({.src_type = src,
                           .dst_type = dst,
                           .rel = fmt::format("rel{}", e),
                           .csc = std::move(part.edges[0].csc)});
    if (e % 2 != 0) continue;
    graph.nodes.push_back(std::move(part.nodes[0]));
    graph.nodes.back().name = fmt::format("node{}", dst);
  }
  return graph;
}

}  // namespace

namespace {

int all_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

/// A bar for each step.
Progress shown() {
  struct Shown {
    std::string step;
    std::unique_ptr<ProgressBar> bar;
  };
  return [shown = std::make_shared<Shown>()](const ProgressReport& state) {
    if (shown->step != state.step) {
      shown->step = state.step;
      shown->bar =
          std::make_unique<ProgressBar>(shown->step, state.total, ProgressBarOptions{.unit = state.unit});
    }
    shown->bar->set(state.done, state.total);
    stop_if_asked();
  };
}

void write(const fs::path& folder, const RawGraph& graph, const Progress& progress) {
  // For the same fanouts and batch size whatever is measured: who came first must not decide the order of the
  // nodes.
  const HotnessOptions hotness{.fanouts = {15, 10, 5}, .batch_size = 1024, .threads = all_threads()};
  const std::vector<NodeOrder> orders = order_nodes(graph, {}, 1, hotness, progress);
  DatasetWriter writer(folder);
  DatasetBuildOptions build;
  build.cut.fanouts = hotness.fanouts;
  build.cut.batch_size = hotness.batch_size;
  build.made_by = "hopfeed-bench";
  build.threads = all_threads();
  writer.commit(build_dataset(writer, graph, orders, build, progress).meta);
}

}  // namespace

fs::path converted_folder(const BenchOptions& options, ElementType type) {
  const fs::path from = dataset_folder(options);
  const Dataset dataset(from);
  const AttrMeta* x = find_attr(dataset.meta().node_types[0].attrs, "x");
  if (x && x->type == type) return from;
  const fs::path folder = cache_folder() / fmt::format("converted-v{}-{}-{}", kScaledDatasetVersion,
                                                       dataset.meta().fingerprint, to_string(type));
  if (fs::exists(folder / "meta.json")) return folder;
  const Progress progress = shown();
  write(folder, convert_attrs(dataset, {.attrs = {{"x", type}}, .threads = all_threads()}, progress).graph,
        progress);
  return folder;
}

fs::path nodes_folder(std::int64_t nodes) {
  constexpr int kParts = 2;
  const fs::path folder = cache_folder() / fmt::format("nodes-{}-v{}-{}-in-{}", kGeneratorVersion,
                                                       kPlainDatasetVersion, nodes, kParts);
  if (fs::exists(folder / "meta.json")) return folder;
  const Progress progress = shown();
  const RawGraph graph =
      generate_graph({.num_nodes = nodes, .num_edges = 1'000, .seed = 1, .threads = all_threads()}, progress);
  const std::vector<std::int32_t> parts =
      partition_randomly(graph, {.partitions = kParts, .seed = 1, .threads = all_threads()});
  const auto as_hot = [nodes](std::span<const std::int64_t>, const auto&) {
    return std::vector<double>(static_cast<std::size_t>(nodes), 1.0);
  };
  const std::vector<NodeOrder> orders = order_nodes_by(graph, parts, kParts, as_hot, progress);
  DatasetWriter writer(folder);
  DatasetBuildOptions build;
  build.cut.method = "random";
  build.cut.seed = 1;
  build.made_by = "hopfeed-bench";
  build.threads = all_threads();
  writer.commit(build_dataset(writer, graph, orders, build, progress).meta);
  return folder;
}

fs::path dataset_folder(const BenchOptions& options, MadeUp made_up) {
  if (!options.data.empty()) return options.data;
  const int version = made_up == MadeUp::kTimes     ? kTimesDatasetVersion
                      : made_up == MadeUp::kWeights ? kWeightsDatasetVersion
                                                    : kPlainDatasetVersion;
  const fs::path folder =
      cache_folder() / fmt::format("generated-{}-v{}-{}-{}-{}{}", kGeneratorVersion, version, options.nodes,
                                   options.edges, options.features, suffix(made_up));
  if (fs::exists(folder / "meta.json")) return folder;
  const Progress progress = shown();
  GenerateOptions generate{.num_nodes = options.nodes,
                           .num_edges = options.edges,
                           .num_features = options.features,
                           .num_classes = std::min<std::int64_t>(47, options.nodes),
                           .seed = 1,
                           .threads = all_threads()};
  RawGraph graph =
      made_up == MadeUp::kTypes ? typed_graph(generate, progress) : generate_graph(generate, progress);
  if (made_up == MadeUp::kWeights) add_weights(graph);
  if (made_up == MadeUp::kTimes) add_times(graph);
  write(folder, graph, progress);
  return folder;
}

}  // namespace hopfeed::bench
