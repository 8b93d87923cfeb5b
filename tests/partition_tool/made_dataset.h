// Tests of the partition tool share this: a graph becomes a dataset by the shared stage, without the program
// around it.
#pragma once
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/halo_files.h"
#include "partition_tool/dataset_build.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/node_order.h"
#include "tests/support/dataset_files.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed::testing {

inline void no_progress(const ProgressReport&) {}

/// Counts the files of a dataset that the obvious writers of tests/support write too: all but the ranked
/// lists, which remote_rows_test.cc looks at.
inline std::size_t files_but_remote_rows(const DatasetMeta& meta) {
  std::size_t files = 0;
  for (const auto& [path, file] : meta.files) files += path.find("/remote_rows/") == std::string::npos;
  return files;
}

inline RawGraph raw_graph_of(const TinyGraph& tiny, bool keep_edge_ids = true) {
  RawGraph graph = graph_of_one_type("tiny");
  graph.nodes[0].count = tiny.num_nodes;
  graph.nodes[0].num_classes = tiny.num_classes;
  graph.nodes[0].splits = tiny.splits;
  graph.edges[0].csc = edges_to_csc(std::span(tiny.src), std::span(tiny.dst),
                                    {.sources = tiny.num_nodes, .destinations = tiny.num_nodes},
                                    {.keep_edge_ids = keep_edge_ids}, no_progress);
  const auto kept = std::make_shared<const TinyGraph>(tiny);
  if (tiny.x_width > 0) {
    graph.nodes[0].attrs.push_back({.name = "x",
                                    .type = ElementType::kFloat32,
                                    .shape = {tiny.x_width},
                                    .read_row = [kept](std::int64_t v, std::span<std::byte> row) {
                                      std::memcpy(row.data(), kept->x.data() + v * kept->x_width, row.size());
                                    }});
  }
  if (!tiny.y.empty()) {
    graph.nodes[0].attrs.push_back({.name = "y",
                                    .type = ElementType::kInt64,
                                    .shape = {},
                                    .read_row = [kept](std::int64_t v, std::span<std::byte> row) {
                                      std::memcpy(row.data(), &kept->y[v], row.size());
                                    }});
  }
  return graph;
}

struct BuildCut {
  int partitions = 1;
  std::vector<std::int32_t> partition_of;  // empty: one partition
  HotnessOptions hotness{.fanouts = {3, 2}, .batch_size = 8, .threads = 1};
  bool sharded_ids = false;
  bool halos = false;
};

inline DatasetMeta write_dataset(const std::filesystem::path& folder, const RawGraph& graph,
                                 const BuildCut& cut = {}) {
  DatasetWriter writer(folder);
  const std::vector<NodeOrder> orders =
      order_nodes(graph, cut.partition_of, cut.partitions, cut.hotness, no_progress);
  const CutMeta how{.method = cut.partitions > 1 ? "random" : "none",
                    .fanouts = cut.hotness.fanouts,
                    .batch_size = cut.hotness.batch_size};
  DatasetBuildResult result = build_dataset(
      writer, graph, orders,
      {.cut = how, .made_by = "a test", .threads = cut.hotness.threads, .sharded_ids = cut.sharded_ids},
      no_progress);
  if (cut.halos) write_halos(writer, result.meta, [](std::uint64_t, std::uint64_t) {});
  writer.commit(result.meta);
  return Dataset(folder).meta();  // with the list of files
}

/// An InEdge is an in-edge of a node by original id: rows have (source, edge id) in row order; edge id -1
/// where none are stored.
struct InEdge {
  std::int64_t source, edge_id;
  friend bool operator==(const InEdge&, const InEdge&) = default;
};
inline std::vector<std::vector<InEdge>> rows_by_original_id(const Dataset& dataset) {
  const CscView view = dataset.csc(0);
  std::vector<std::vector<InEdge>> rows(view.num_dst_nodes);
  const auto at = [](const void* ids, ElementType type, std::int64_t i) {
    return type == ElementType::kInt32 ? static_cast<const std::int32_t*>(ids)[i]
                                       : static_cast<const std::int64_t*>(ids)[i];
  };
  for (const CscPart& part : view.parts) {
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        rows[part.rows[row].original_id].push_back(
            {dataset.original_id(0, at(part.indices, view.index_type, e)),
             view.has_edge_ids ? at(part.edge_ids, view.edge_id_type, e) : -1});
      }
    }
  }
  return rows;
}

}  // namespace hopfeed::testing
