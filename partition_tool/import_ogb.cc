// See import_ogb.h.
#include "partition_tool/import_ogb.h"

#include "core/limits.h"
#include "partition_tool/import_ogb_types.h"
#include "partition_tool/labels.h"
#include "partition_tool/ogb_files.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

RawEdges read_edges(const OgbImportOptions& options, std::int64_t num_nodes, const Progress& progress) {
  const fs::path raw = options.raw / "raw", path = require_csv(raw, "edge");
  const EdgeEnds ends{.sources = num_nodes, .destinations = num_nodes};
  const OgbEdges edges =
      read_ogb_edges(path, {.ends = ends, .add_inverse = options.add_inverse_edge}, progress);
  const std::int64_t edges_per_line = options.add_inverse_edge ? 2 : 1;
  const OgbEdgeLines lines{.lines = std::ssize(edges.source) / edges_per_line,
                           .edges_per_line = edges_per_line};
  const auto features = find_csv(raw, "edge-feat");
  RawEdges type;
  type.csc = edges_to_csc(std::span(edges.source), std::span(edges.destination), ends,
                          {.keep_edge_ids = options.keep_edge_ids || features,
                           .threads = options.threads,
                           .origin = path.string()},
                          progress);
  if (features && !options.keep_edge_ids) type.csc.edge_id_kind = EdgeIds::kHeld;
  if (features) type.attrs.push_back(ogb_edge_features(*features, "edge_attr", lines, progress));
  return type;
}

}  // namespace

RawGraph import_ogb(const OgbImportOptions& options, const Progress& progress) {
  const fs::path raw = options.raw / "raw";
  if (fs::is_directory(raw / "relations")) return import_ogb_types(options, progress);
  const fs::path splits = ogb_split_folder(options.raw, options.split_scheme);
  const std::int64_t num_nodes = read_ogb_count(require_csv(raw, "num-node-list"), kMaxNodes);
  RawGraph graph = graph_of_one_type(fs::absolute(options.raw).lexically_normal().filename().string());
  RawNodes& nodes = graph.nodes[0];
  nodes.count = num_nodes;
  graph.edges[0] = read_edges(options, num_nodes, progress);
  if (const auto path = find_csv(raw, "node-feat"))
    nodes.attrs.push_back(ogb_node_features(*path, num_nodes, progress));
  if (const auto path = find_csv(raw, "node-label")) set_labels(nodes, read_ogb_labels(*path, num_nodes));
  for (const char* name : {"train", "valid", "test"})
    nodes.splits[name] = read_ogb_split(require_csv(splits, name), num_nodes);
  return graph;
}

}  // namespace hopfeed
