// See partition_dataset.h.
#include "partition_tool/program/partition_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/saturating.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/id_choice.h"
#include "partition_tool/node_order.h"
#include "partition_tool/partition_limits.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/undirected_graph.h"

namespace hopfeed {
namespace {

/// METIS is given as much of the graph as there is memory for (cut_nodes.h); all else it takes to cut at all.
MemoryWish wish_of(const CutOptions& options, const DatasetMeta& meta) {
  const GraphCounts counts = counts_of(meta);
  std::int64_t nodes = 0, directed = 0;
  for (const std::int64_t count : counts.nodes) nodes += count;
  for (const GraphCounts::Edges& edges : counts.edges) directed += 2 * edges.count;
  if (options.metis_degree.value_or(0) > 0)
    directed = std::min(directed, saturating_product(nodes, *options.metis_degree));
  const std::uint64_t least = partition_bytes(counts, static_cast<int>(options.parts)),
                      of_metis = options.method == "metis" && options.parts > 1
                                     ? rows_bytes(counts) + metis_bytes(nodes, directed)
                                     : 0;
  return {
      .what = "cutting " + options.input,
      .knobs =
          "use a machine with more, or import the graph as tables with --parts, which keeps to its --memory",
      .bytes = std::max(least, of_metis),
      .least = least};
}

}  // namespace

void partition_dataset(const CutOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Dataset input(options.input);
  const DatasetMeta& meta = input.meta();
  std::int64_t num_nodes = 0, num_edges = 0;
  for (const NodeTypeMeta& node : meta.node_types) num_nodes += node.count;
  for (const EdgeTypeMeta& edge : meta.edge_types) num_edges += edge.count;
  if (options.parts < 1 || options.parts > std::min(num_nodes, kMaxPartitions)) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("--parts {} is out of range (1 to {}, for {} nodes)", options.parts,
                            std::min(num_nodes, kMaxPartitions), num_nodes));
  }
  if (options.halo > 0 && options.parts == 1)
    throw Error(ErrorCode::kInvalid,
                "--halo copies nodes along the cut, and --parts 1 cuts nothing; leave one of them out");
  const bool sharded_ids = shards_ids(options.ids, options.parts, meta);
  for (const NodeTypeMeta& node : meta.node_types) require_enough_parts(node.name, node.count, options.parts);
  check_choice(options);
  if (options.method == "metis" && options.parts > 1) require_metis_nodes(num_nodes);
  const HotnessOptions hotness = input_hotness(options, meta);
  JsonReport json(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  MemoryTold told(bars);
  want_memory(told.teller(), wish_of(options, meta));
  RawGraph graph = read_dataset(input, options.threads, bars.progress());
  for (RawEdges& edges : graph.edges) edges.by_id |= options.by_id;
  const int parts = static_cast<int>(options.parts);
  const NodeCut nodes = cut_nodes(graph, options, parts, options.threads, bars);
  require_no_empty_partition(nodes.partition_of, parts, options.method);
  require_rows_fit(graph, nodes.partition_of, parts);
  const std::vector<NodeOrder> orders =
      order_nodes(graph, nodes.partition_of, parts, hotness, bars.progress());
  const CutMeta cut{.method = options.method,
                    .fanouts = hotness.fanouts,
                    .batch_size = hotness.batch_size,
                    .edges_cut = 0,
                    .seed = options.seed,
                    .metis_degree = nodes.metis_degree};
  DatasetBuildResult result = build_dataset(
      writer, graph, orders,
      {.cut = cut, .made_by = options.command_line, .threads = options.threads, .sharded_ids = sharded_ids},
      bars.progress());
  require_same_content(options.input, meta, result.meta);
  if (options.halo > 0) write_halos_of(writer, result.meta, bars);
  writer.commit(result.meta);
  bars.finish();
  fmt::print("{} cut {} of {} edges ({:.1f}%) in {:.1f} s\n", options.method, result.meta.cut.edges_cut,
             num_edges,
             100.0 * static_cast<double>(result.meta.cut.edges_cut) /
                 static_cast<double>(std::max<std::int64_t>(1, num_edges)),
             nodes.seconds);
  for (const NodeTypeMeta& node : result.meta.node_types) {
    std::vector<std::int64_t> rows(node.partition_offsets.begin() + 1, node.partition_offsets.end());
    for (std::size_t p = rows.size(); p-- > 0;) rows[p] -= node.partition_offsets[p];
    for (const std::string& line : limits_ahead(node.name, rows)) fmt::print("{}\n", line);
  }
  json.write(report_dataset(
      options.folder, result,
      {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
       .cut_seconds = nodes.seconds,
       .memory_bytes = told.bytes()}));
}

}  // namespace hopfeed
