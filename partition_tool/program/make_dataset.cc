// See make_dataset.h.
#include "partition_tool/program/make_dataset.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"
#include "core/dataset/halo_files.h"
#include "partition_tool/node_order.h"
#include "partition_tool/repeated_ids.h"

namespace hopfeed {

HotnessOptions hotness_options(const WriteOptions& options, const HotnessOptions& defaults) {
  BatchOptions checked;
  checked.fanouts = options.fanouts ? parse_fanouts(*options.fanouts) : defaults.fanouts;
  checked.validate();
  const std::int64_t batch_size = options.batch_size.value_or(defaults.batch_size);
  if (batch_size < 1 || batch_size > kMaxBatchSize)
    throw Error(ErrorCode::kInvalid,
                fmt::format("--batch-size {} is out of range (1 to {})", batch_size, kMaxBatchSize));
  return {.fanouts = checked.fanouts, .batch_size = batch_size, .threads = options.threads};
}

HotnessOptions input_hotness(const WriteOptions& options, const DatasetMeta& input) {
  return hotness_options(options, {.fanouts = input.cut.fanouts, .batch_size = input.cut.batch_size});
}

void require_same_content(const std::string& input, const DatasetMeta& said, const DatasetMeta& read) {
  if (read.fingerprint == said.fingerprint) return;
  throw Error(ErrorCode::kCorrupt, fmt::format("{} is damaged: its content has the fingerprint {}, its "
                                               "meta.json says {}; run hopfeed-partition verify",
                                               input, read.fingerprint, said.fingerprint));
}

DatasetBuildResult write_whole(DatasetWriter& writer, const RawGraph& graph, const HotnessOptions& hotness,
                               DatasetBuildOptions options, Bars& bars) {
  options.cut = {.fanouts = hotness.fanouts, .batch_size = hotness.batch_size};
  const std::vector<NodeOrder> orders = order_nodes(graph, {}, 1, hotness, bars.progress());
  DatasetBuildResult result = build_dataset(writer, graph, orders, options, bars.progress());
  writer.commit(result.meta);
  bars.finish();
  return result;
}

void write_halos_of(DatasetWriter& writer, DatasetMeta& meta, Bars& bars) {
  write_halos(writer, meta, [&bars](std::uint64_t done, std::uint64_t total) {
    bars.show({.step = "Writing halos", .unit = "files", .done = done, .total = total});
  });
}

nlohmann::json report_dataset(const std::string& folder, const DatasetBuildResult& result,
                              const DatasetCost& cost) {
  const DatasetMeta& meta = result.meta;
  std::int64_t num_nodes = 0, num_edges = 0;
  nlohmann::json node_types = nlohmann::json::object(), edge_types = nlohmann::json::object();
  for (const NodeTypeMeta& node : meta.node_types) {
    num_nodes += node.count;
    node_types[node.name] = {{"nodes", node.count},
                             {"classes", node.num_classes},
                             {"splits", node.splits},
                             {"halo_nodes", node.halo_nodes},
                             {"remote_sources", node.remote_sources},
                             {"partition_offsets", node.partition_offsets}};
  }
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    num_edges += edge.count;
    edge_types[edge.folder()] = edge.count;
  }
  const auto of_types = [&](std::size_t count) {
    return meta.node_types.size() + meta.edge_types.size() > 2 ? fmt::format(" of {} types", count) : "";
  };
  const NodeTypeMeta& node = meta.node_types[0];
  fmt::print(
      "{}: {} nodes{}, {} edges{}, {} classes, {} partition{}, {} edges cut, fingerprint {} ({:.1f} s)\n",
      folder, num_nodes, of_types(meta.node_types.size()), num_edges, of_types(meta.edge_types.size()),
      node.num_classes, meta.partitions, meta.partitions == 1 ? "" : "s", meta.cut.edges_cut,
      meta.fingerprint, cost.seconds);
  for (const auto& [attr, count] : result.nonfinite)
    fmt::print(stderr, "hopfeed-partition: warning: attribute {} has {} values that are NaN or infinite\n",
               attr, count);
  return {{"dataset", folder},
          {"made_by", meta.made_by},
          {"nodes", num_nodes},
          {"edges", num_edges},
          {"classes", node.num_classes},
          {"splits", node.splits},
          {"partitions", meta.partitions},
          {"ids", meta.sharded_ids ? "sharded" : "replicated"},
          {"partition_offsets", node.partition_offsets},
          {"node_types", node_types},
          {"edge_types", edge_types},
          {"method", meta.cut.method},
          {"edges_cut", meta.cut.edges_cut},
          {"metis_degree", meta.cut.metis_degree},
          {"fingerprint", meta.fingerprint},
          {"nonfinite", result.nonfinite},
          {"memory_bytes", cost.memory_bytes},
          {"seconds", cost.seconds},
          {"cut_seconds", cost.cut_seconds}};
}

void make_dataset(const MakeOptions& options, const Import& import) {
  const auto begin = std::chrono::steady_clock::now();
  const HotnessOptions hotness = hotness_options(options);
  JsonReport json(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  MemoryTold told(bars);
  RawGraph graph = import(bars.progress(), told.teller());
  bars.finish();
  for (const std::string& note : graph.notes) fmt::print("{}\n", note);
  for (const std::string& line : repeated_ids(graph))
    fmt::print(stderr, "hopfeed-partition: warning: {}\n", line);
  for (RawEdges& edges : graph.edges) edges.by_id = options.by_id;
  const DatasetBuildResult result = write_whole(writer, graph, hotness,
                                                {.cut = {},
                                                 .made_by = options.command_line,
                                                 .threads = options.threads,
                                                 .reject_nonfinite = options.reject_nonfinite},
                                                bars);
  json.write(report_dataset(
      options.folder, result,
      {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
       .memory_bytes = told.bytes()}));
}

}  // namespace hopfeed
