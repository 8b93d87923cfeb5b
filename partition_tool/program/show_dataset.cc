// See show_dataset.h.
#include "partition_tool/program/show_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/dataset/dataset.h"
#include "partition_tool/inspect_dataset.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {
namespace {

using nlohmann::json;

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

json show_attrs(const std::vector<AttrMeta>& attrs) {
  json report = json::array();
  for (const AttrMeta& attr : attrs) {
    fmt::print("  attribute {}: {} [{}], {} bytes from row to row\n", attr.name, to_string(attr.type),
               fmt::join(attr.shape, ", "), attr.stride_bytes);
    report.push_back({{"name", attr.name},
                      {"element_type", to_string(attr.type)},
                      {"shape", attr.shape},
                      {"stride_bytes", attr.stride_bytes}});
  }
  return report;
}

json show_node_type(const DatasetMeta& meta, const NodeTypeMeta& node) {
  fmt::print("node type {}: {} nodes, {} classes\n", node.name, node.count, node.num_classes);
  json report = {{"name", node.name},
                 {"nodes", node.count},
                 {"classes", node.num_classes},
                 {"splits", node.splits},
                 {"partition_offsets", node.partition_offsets},
                 {"remote_rows", node.remote_rows},
                 {"remote_sources", node.remote_sources},
                 {"halo_sources", node.halo_sources},
                 {"halo_nodes", node.halo_nodes}};
  report["attrs"] = show_attrs(node.attrs);
  for (const auto& [name, count] : node.splits) fmt::print("  split {}: {} nodes\n", name, count);
  for (int p = 0; p < meta.partitions; ++p)
    fmt::print("  partition {}: {} nodes{}{}{}\n", p,
               node.partition_offsets[p + 1] - node.partition_offsets[p],
               node.halo_nodes.empty() ? "" : fmt::format(", {} in its halo", node.halo_nodes[p]),
               node.remote_rows.empty() ? "" : fmt::format(", {} of others ranked", node.remote_rows[p]),
               node.remote_sources.empty() ? "" : fmt::format(", ids of {} others", node.remote_sources[p]));
  return report;
}

json show_edge_type(const Dataset& dataset, int number) {
  const EdgeTypeMeta& edge = dataset.meta().edge_types[number];
  std::optional<DegreeSummary> degrees;  // of the whole graph
  if (dataset.whole()) degrees = summarise_degrees(dataset, number);
  fmt::print("edge type {} -> {} -> {}: {} edges{}\n", edge.src, edge.rel, edge.dst, edge.count,
             edge.has_edge_ids ? ", with edge ids" : "");
  if (degrees)
    fmt::print("  in-degree: min {}, median {}, mean {:.1f}, max {}\n", degrees->min, degrees->median,
               degrees->mean, degrees->max);
  json attrs = show_attrs(edge.attrs);
  for (const std::string& weight : edge.weights)
    fmt::print("  weight {}: edges can be drawn by it\n", weight);
  for (const std::string& time : edge.times) fmt::print("  time {}: rows are in its order\n", time);
  if (edge.has_by_id) fmt::print("  rows are in the order of source ids too\n");
  if (!edge.rev_of.empty()) fmt::print("  the reverse of {}\n", edge.rev_of);
  for (const auto& [name, count] : edge.splits) fmt::print("  edge split {}: {} links\n", name, count);
  fmt::print("  edges by partition: {}\n", fmt::join(edge.partition_edges, ", "));
  json report{{"src", edge.src},
              {"rel", edge.rel},
              {"dst", edge.dst},
              {"edges", edge.count},
              {"partition_edges", edge.partition_edges},
              {"halo_edges", edge.halo_edges},
              {"edge_ids", edge.has_edge_ids},
              {"attrs", std::move(attrs)},
              {"weights", edge.weights},
              {"times", edge.times},
              {"rev_of", edge.rev_of},
              {"edge_splits", edge.splits},
              {"by_id", edge.has_by_id}};
  if (degrees)
    report["in_degree"] = {
        {"min", degrees->min}, {"median", degrees->median}, {"mean", degrees->mean}, {"max", degrees->max}};
  return report;
}

void show_partitions_here(const Dataset& dataset) {
  if (dataset.whole()) return;
  fmt::print("on this machine: partition{} {}\n", dataset.partitions().size() == 1 ? "" : "s",
             fmt::join(dataset.partitions(), ", "));
}

json show_hotness(const std::string& of, const HotnessCheck& check, std::int64_t epochs) {
  fmt::print("hotness of {} against {} epochs of real batches: rank correlation {:.3f}\n", of, epochs,
             check.rank_correlation);
  for (std::size_t i = 0; i < std::size(kHitRatios); ++i) {
    fmt::print("  the first {:.0f}% of its nodes serve {:.1f}% of the reads (best possible {:.1f}%)\n",
               100 * kHitRatios[i], 100 * check.hit_rate[i], 100 * check.best[i]);
  }
  return {{"rank_correlation", check.rank_correlation},
          {"ratios", kHitRatios},
          {"hit_rate", check.hit_rate},
          {"best_hit_rate", check.best}};
}

json show_hotness(const Dataset& dataset, const ShowOptions& options) {
  json report = json::array();
  for (int p = 0; p < dataset.meta().partitions; ++p) {
    const std::vector<HotnessCheck> checks =
        check_hotness(dataset, p, {.epochs = options.presample, .threads = options.threads});
    for (std::size_t t = 0; t < checks.size(); ++t) {
      const std::string& type = dataset.meta().node_types[t].name;
      const std::string of = fmt::format("partition {}{}", p, checks.size() > 1 ? ", node type " + type : "");
      report.push_back(show_hotness(of, checks[t], options.presample));
      report.back().update({{"partition", p}, {"node_type", type}});
    }
  }
  return report;
}

}  // namespace

void show_dataset(const ShowOptions& options) {
  JsonReport report(options.json);
  const Dataset dataset(options.folder, {.some_partitions = true});
  if (options.presample > 0) dataset.require_whole("the hotness of real batches (--presample)");
  const DatasetMeta& meta = dataset.meta();
  fmt::print("{}: {}, {} partition{}, fingerprint {}\n", options.folder, meta.name, meta.partitions,
             meta.partitions == 1 ? "" : "s", meta.fingerprint);
  show_partitions_here(dataset);
  fmt::print("made by: {}\n", meta.made_by);
  fmt::print("cut: {}, {} edges cut; order: hotness ({}) for fanouts {} and batch size {}\n", meta.cut.method,
             meta.cut.edges_cut, meta.cut.policy, fmt::join(meta.cut.fanouts, ","), meta.cut.batch_size);
  if (meta.partitions > 1)
    fmt::print("ids: {}\n", meta.sharded_ids ? "sharded, each partition has a range of them"
                                             : "replicated, every machine has all");
  if (meta.cut.metis_degree > 0)
    fmt::print("METIS saw about {} neighbours of each node (--metis-degree)\n", meta.cut.metis_degree);
  json out = {{"dataset", options.folder},
              {"name", meta.name},
              {"made_by", meta.made_by},
              {"fingerprint", meta.fingerprint},
              {"partitions", meta.partitions},
              {"partitions_here", dataset.partitions()},
              {"ids", meta.sharded_ids ? "sharded" : "replicated"},
              {"cut",
               {{"method", meta.cut.method},
                {"policy", meta.cut.policy},
                {"edges_cut", meta.cut.edges_cut},
                {"fanouts", meta.cut.fanouts},
                {"batch_size", meta.cut.batch_size},
                {"seed", meta.cut.seed},
                {"metis_degree", meta.cut.metis_degree}}},
              {"class_names", meta.class_names}};
  for (const NodeTypeMeta& node : meta.node_types) out["node_types"].push_back(show_node_type(meta, node));
  for (int t = 0; t < dataset.num_edge_types(); ++t) out["edge_types"].push_back(show_edge_type(dataset, t));
  const SizeSummary sizes = summarise_sizes(dataset);
  fmt::print(
      "all partitions on disk: {} (rows {}, indices {}, edge ids {}, attributes {}, weights and times {}, "
      "halos {}, other {})\n",
      megabytes(sizes.total), megabytes(sizes.rows), megabytes(sizes.indices), megabytes(sizes.edge_ids),
      megabytes(sizes.attrs), megabytes(sizes.tables), megabytes(sizes.halos), megabytes(sizes.other));
  out["bytes"] = {{"total", sizes.total},       {"rows", sizes.rows},   {"indices", sizes.indices},
                  {"edge_ids", sizes.edge_ids}, {"attrs", sizes.attrs}, {"tables", sizes.tables},
                  {"halos", sizes.halos},       {"other", sizes.other}};
  if (options.presample > 0) out["hotness"] = show_hotness(dataset, options);
  report.write(out);
}

void verify_dataset(const ShowOptions& options) {
  JsonReport report(options.json);
  const Dataset dataset(options.folder, {.some_partitions = true});
  Bars bars;
  dataset.verify([&](std::uint64_t done, std::uint64_t total) {
    bars.show({"Verifying", "B", done, total});
  });
  bars.finish();
  const auto files = std::ranges::count_if(dataset.meta().files, [&](const auto& file) {
    return std::filesystem::exists(dataset.folder() / file.first);
  });
  fmt::print("{}: ok, {} files, fingerprint {}\n", options.folder, files, dataset.meta().fingerprint);
  show_partitions_here(dataset);
  if (!dataset.whole())
    fmt::print("checksums alone: what files mean is checked where all {} partitions are\n",
               dataset.meta().partitions);
  report.write({{"dataset", options.folder},
                {"ok", true},
                {"files", files},
                {"partitions_here", dataset.partitions()},
                {"fingerprint", dataset.meta().fingerprint}});
}

}  // namespace hopfeed
