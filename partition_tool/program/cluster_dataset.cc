// See cluster_dataset.h.
#include "partition_tool/program/cluster_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "partition_tool/node_clusters.h"
#include "partition_tool/numpy_arrays.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

/// Says what the clusters are like, on stdout and as JSON.
nlohmann::json report_clusters(const ClusterOptions& options, const RawGraph& alone, const NodeCut& cut,
                               NodeClusters clusters) {
  std::vector<std::int64_t>& sizes = clusters.sizes;
  std::ranges::sort(sizes);
  const std::int64_t median = sizes[sizes.size() / 2];
  fmt::print(
      "{} made {} clusters{} of {} to {} nodes (median {}), cut {} of {} edges between nodes of type '{}' "
      "({:.1f}%) "
      "in {:.1f} s\n",
      options.method, sizes.size(),
      std::ssize(sizes) < options.clusters
          ? fmt::format(" ({} were asked for; the others would be empty)", options.clusters)
          : "",
      sizes.front(), sizes.back(), median, clusters.edges_cut, alone.num_edges(), alone.nodes[0].name,
      100.0 * static_cast<double>(clusters.edges_cut) /
          static_cast<double>(std::max<std::int64_t>(1, alone.num_edges())),
      cut.seconds);
  return {{"attr", options.attr},
          {"node_type", alone.nodes[0].name},
          {"method", options.method},
          {"seed", options.seed},
          {"metis_degree", cut.metis_degree},
          {"count", sizes.size()},
          {"smallest", sizes.front()},
          {"median", median},
          {"largest", sizes.back()},
          {"edges", alone.num_edges()},
          {"edges_cut", clusters.edges_cut},
          {"seconds", cut.seconds}};
}

}  // namespace

void cluster_dataset(const ClusterOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Dataset input(options.input);
  const int type = options.node_type.empty() ? 0 : input.meta().node_type(options.node_type);
  const NodeTypeMeta& nodes = input.meta().node_types[type];
  if (options.clusters > nodes.count)
    throw Error(ErrorCode::kInvalid,
                fmt::format("--clusters {} is out of range (1 to {}, the nodes of type '{}')",
                            options.clusters, nodes.count, nodes.name));
  std::vector<std::string> taken;
  for (const AttrMeta& attr : nodes.attrs) taken.push_back(attr.name);
  check_attr_names(taken, {{.name = options.attr, .source = {}}}, "attribute");
  check_choice(options);
  const HotnessOptions hotness = input_hotness(options, input.meta());
  JsonReport json(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  input.verify([&](std::uint64_t done, std::uint64_t total) { bars.show({"Verifying", "B", done, total}); });
  RawGraph graph = read_dataset(input, options.threads, bars.progress());
  RawGraph alone = graph_of_node_type(graph, type);
  const int parts = static_cast<int>(options.clusters);
  const NodeCut cut = cut_nodes(alone, options, parts, options.threads, bars);
  NodeClusters clusters = make_clusters(alone, cut.partition_of, parts);
  add_cluster_attr(graph, type, options.attr, clusters.cluster_of);
  const DatasetBuildOptions how{.cut = {}, .made_by = options.command_line, .threads = options.threads};
  const DatasetBuildResult result = write_whole(writer, graph, hotness, how, bars);
  nlohmann::json about = report_clusters(options, alone, cut, std::move(clusters));
  nlohmann::json report = report_dataset(
      options.folder, result,
      {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
  report["clusters"] = std::move(about);
  json.write(report);
}

}  // namespace hopfeed
