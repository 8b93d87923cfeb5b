// See partition_dataset.h.
#include "partition_tool/program/partition_dataset.h"

#include <fmt/format.h>

#include <chrono>

#include "core/error.h"
#include "core/limits.h"
#include "partition_tool/node_order.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {

void partition_dataset(const CutOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Dataset input(options.input);
  const DatasetMeta& meta = input.meta();
  const std::int64_t num_nodes = meta.node_types[0].count;
  if (options.parts < 1 || options.parts > std::min(num_nodes, kMaxPartitions)) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("--parts {} is out of range (1 to {}, for {} nodes)", options.parts,
                            std::min(num_nodes, kMaxPartitions), num_nodes));
  }
  HotnessOptions hotness = hotness_options(options.fanouts.value_or(""),
                                           options.batch_size.value_or(meta.cut.batch_size), options.threads);
  if (!options.fanouts) hotness.fanouts = meta.cut.fanouts;
  JsonReport json(options.json);
  DatasetWriter writer(options.output, {.overwrite = options.overwrite});
  Bars bars;
  const RawGraph graph = read_dataset(input, options.threads, bars.progress());
  const PartitionOptions how{
      .partitions = static_cast<int>(options.parts), .seed = options.seed, .threads = options.threads};
  const auto cut_begin = std::chrono::steady_clock::now();
  const std::vector<std::int32_t> partition_of = options.method == "metis"
                                                     ? partition_by_metis(graph, how, bars.progress())
                                                     : partition_randomly(graph, how);
  const double cut_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - cut_begin).count();
  const NodeOrder order = order_nodes(graph, partition_of, how.partitions, hotness, bars.progress());
  const CutMeta cut{.method = options.method,
                    .fanouts = hotness.fanouts,
                    .batch_size = hotness.batch_size,
                    .edges_cut = 0,
                    .seed = options.seed};
  const DatasetBuildResult result = build_dataset(
      writer, graph, order, {.cut = cut, .made_by = options.command_line, .threads = options.threads},
      bars.progress());
  if (result.meta.fingerprint != meta.fingerprint) {
    throw Error(ErrorCode::kCorrupt, fmt::format("{} is damaged: its content has the fingerprint {}, its "
                                                 "meta.json says {}; run hopfeed-partition verify",
                                                 options.input, result.meta.fingerprint, meta.fingerprint));
  }
  writer.commit(result.meta);
  bars.finish();
  fmt::print("{} cut {} of {} edges ({:.1f}%) in {:.1f} s\n", options.method, result.meta.cut.edges_cut,
             result.meta.edge_types[0].count,
             100.0 * static_cast<double>(result.meta.cut.edges_cut) /
                 static_cast<double>(std::max<std::int64_t>(1, result.meta.edge_types[0].count)),
             cut_seconds);
  report_dataset(options.output, result,
                 {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                  .cut_seconds = cut_seconds},
                 json);
}

}  // namespace hopfeed
