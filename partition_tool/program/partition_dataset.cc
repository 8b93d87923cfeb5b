// See partition_dataset.h.
#include "partition_tool/program/partition_dataset.h"

#include <fmt/format.h>

#include <chrono>

#include "core/error.h"
#include "core/limits.h"
#include "core/memory_limits.h"
#include "partition_tool/node_order.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {

namespace {

/// Chooses how much of the graph METIS gets where the user did not, and says so where it is not all.
std::vector<std::int32_t> cut_by_metis(const RawGraph& graph, const CutOptions& options,
                                       PartitionOptions& how, Bars& bars) {
  if (how.partitions == 1) return partition_by_metis(graph, how, bars.progress());
  if (options.metis_degree) {
    how.metis_degree = *options.metis_degree;
  } else {
    const std::uint64_t available = available_memory().bytes / 10 * 9;  // the estimate is one
    const MetisFit fit = fit_metis(graph, how, available);
    how.metis_degree = fit.degree;
    if (fit.degree > 0) {
      bars.finish();
      fmt::print(
          "METIS would need about {} for all edges, {} are to be had: it sees about {} neighbours of each "
          "node "
          "(--metis-degree {} makes this cut again)\n",
          format_bytes(fit.whole_bytes), format_bytes(available), fit.degree, fit.degree);
    }
  }
  return partition_by_metis(graph, how, bars.progress());
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
  if (options.metis_degree && options.method != "metis")
    throw Error(ErrorCode::kInvalid, "--metis-degree is for --method metis; leave it out");
  const HotnessOptions hotness =
      hotness_options(options, {.fanouts = meta.cut.fanouts, .batch_size = meta.cut.batch_size});
  JsonReport json(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  const RawGraph graph = read_dataset(input, options.threads, bars.progress());
  PartitionOptions how{
      .partitions = static_cast<int>(options.parts), .seed = options.seed, .threads = options.threads};
  const auto cut_begin = std::chrono::steady_clock::now();
  const std::vector<std::int32_t> partition_of =
      options.method == "metis" ? cut_by_metis(graph, options, how, bars) : partition_randomly(graph, how);
  const double cut_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - cut_begin).count();
  const std::vector<NodeOrder> orders =
      order_nodes(graph, partition_of, how.partitions, hotness, bars.progress());
  const CutMeta cut{.method = options.method,
                    .fanouts = hotness.fanouts,
                    .batch_size = hotness.batch_size,
                    .edges_cut = 0,
                    .seed = options.seed,
                    .metis_degree = how.metis_degree};
  const DatasetBuildResult result = build_dataset(
      writer, graph, orders, {.cut = cut, .made_by = options.command_line, .threads = options.threads},
      bars.progress());
  if (result.meta.fingerprint != meta.fingerprint) {
    throw Error(ErrorCode::kCorrupt, fmt::format("{} is damaged: its content has the fingerprint {}, its "
                                                 "meta.json says {}; run hopfeed-partition verify",
                                                 options.input, result.meta.fingerprint, meta.fingerprint));
  }
  writer.commit(result.meta);
  bars.finish();
  fmt::print("{} cut {} of {} edges ({:.1f}%) in {:.1f} s\n", options.method, result.meta.cut.edges_cut,
             num_edges,
             100.0 * static_cast<double>(result.meta.cut.edges_cut) /
                 static_cast<double>(std::max<std::int64_t>(1, num_edges)),
             cut_seconds);
  report_dataset(options.folder, result,
                 {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                  .cut_seconds = cut_seconds},
                 json);
}

}  // namespace hopfeed
