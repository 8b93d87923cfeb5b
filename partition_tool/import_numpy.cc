// See import_numpy.h.
#include "partition_tool/import_numpy.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/dataset_title.h"
#include "partition_tool/edge_array_checks.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/labels.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// The files of one node type, open.
struct OpenNodes {
  std::optional<std::int64_t> count;  // not known: neither the description nor a file tells
  std::shared_ptr<const GivenArray> features, labels;
  std::vector<std::shared_ptr<const GivenArray>> attrs;
};

OpenNodes open_nodes(const NumpyNodes& files) {
  OpenNodes open{.count = files.count, .features = {}, .labels = {}, .attrs = {}};
  if (!files.features.empty()) open.features = open_rows(files.features, open.count);
  if (!files.labels.empty()) open.labels = open_rows(files.labels, open.count);
  for (const NamedArray& array : files.attrs) open.attrs.push_back(open_rows(array.source, open.count));
  return open;
}

RawNodes read_nodes(const NumpyNodes& files, const OpenNodes& open, std::int64_t count) {
  RawNodes nodes{.name = files.name, .count = count, .attrs = {}, .splits = {}};
  if (open.features) nodes.attrs.push_back(feature_attr(open.features));
  if (open.labels) set_labels(nodes, read_labels(*open.labels, count));
  for (const auto& [name, split] : files.splits) {
    if (!split.empty()) nodes.splits[name] = read_split(split, count);
  }
  check_attr_names({"x", "y"}, files.attrs, "node attribute");
  for (std::size_t i = 0; i < open.attrs.size(); ++i)
    nodes.attrs.push_back(node_attr(files.attrs[i], open.attrs[i], count));
  return nodes;
}

/// One import: what its steps share.
class Importer {
 public:
  Importer(const NumpyGraph& files, const NumpyImportOptions& options) : files_(files), options_(options) {}

  RawGraph run(const Progress& progress) {
    for (const NumpyEdges& edges : files_.edges) indices_.push_back(open_edge_index(edges.index));
    RawGraph graph;
    graph.name = files_.name;
    for (const EdgeIndex& index : indices_)
      if (!index.note.empty()) graph.notes.push_back(index.note);
    for (const NumpyNodes& files : files_.nodes) {
      const OpenNodes open = open_nodes(files);
      graph.nodes.push_back(read_nodes(files, open, open.count ? *open.count : count_by_edges(files)));
    }
    if (graph.num_nodes() == 0)
      throw Error(ErrorCode::kInvalid, fmt::format("{}: the graph has no nodes", origin().string()));
    for (std::size_t t = 0; t < files_.edges.size(); ++t) graph.edges.push_back(describe_edges(t));
    check_weights_and_times(graph);
    tell_memory(graph);
    for (std::size_t t = 0; t < files_.edges.size(); ++t) graph.edges[t].csc = read_edges(graph, t, progress);
    return graph;
  }

 private:
  int node_type(const std::string& name) const {
    return static_cast<int>(std::ranges::find(files_.nodes, name, &NumpyNodes::name) - files_.nodes.begin());
  }
  std::int64_t largest_id_of(const std::string& node_type) const {
    std::int64_t largest = -1;
    for (std::size_t t = 0; t < indices_.size(); ++t) {
      if (files_.edges[t].src == node_type) largest = std::max(largest, largest_id(indices_[t].source));
      if (files_.edges[t].dst == node_type) largest = std::max(largest, largest_id(indices_[t].destination));
    }
    return largest;
  }
  /// What an error of the whole graph names.
  const fs::path& origin() const { return options_.hetero.empty() ? options_.edge_index : options_.hetero; }
  std::int64_t count_by_edges(const NumpyNodes& files) const {
    const std::int64_t count = 1 + largest_id_of(files.name);
    if (count >= 1 && count <= kMaxNodes) return count;
    if (options_.hetero.empty())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{}: {} nodes are out of range (1 to {}); give --num-nodes", origin().string(),
                              count, kMaxNodes));
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}: node type '{}' has {} nodes by its edges, out of range (1 to {}); give its "
                            "count, which may be 0",
                            origin().string(), files.name, count, kMaxNodes));
  }

  bool keeps_ids(const RawEdges& edges) const { return options_.keep_edge_ids || !edges.attrs.empty(); }

  void tell_memory(const RawGraph& graph) const {
    GraphCounts counts;
    std::uint64_t lists = 0;
    for (std::size_t t = 0; t < graph.nodes.size(); ++t) {
      counts.nodes.push_back(graph.nodes[t].count);
      if (!files_.nodes[t].labels.empty())
        counts.beside += static_cast<std::uint64_t>(graph.nodes[t].count) * 8;
    }
    for (std::size_t t = 0; t < graph.edges.size(); ++t) {
      const RawEdges& edges = graph.edges[t];
      counts.edges.push_back({.src_type = edges.src_type,
                              .dst_type = edges.dst_type,
                              .count = id_count(indices_[t].source),
                              .stored_edge_ids = keeps_ids(edges)});
      for (const IdArray* copy : {&indices_[t].held_sources, &indices_[t].held_destinations})
        lists += std::visit([](const auto& ids) { return std::span(ids).size_bytes(); }, *copy);
    }
    want_memory(options_.tell_memory, {.what = "importing " + origin().string(),
                                       .knobs = "--no-edge-ids saves some, else use a machine with more",
                                       .bytes = import_bytes(counts, lists)});
  }

  /// Everything but the rows.
  RawEdges describe_edges(std::size_t type) const {
    const NumpyEdges& files = files_.edges[type];
    RawEdges edges{.src_type = node_type(files.src),
                   .dst_type = node_type(files.dst),
                   .rel = files.rel,
                   .csc = {},
                   .attrs = {},
                   .weights = files.weights,
                   .times = files.times,
                   .rev_of = files.rev_of};
    check_attr_names({}, files.attrs, "edge attribute");
    for (const NamedArray& array : files.attrs)
      edges.attrs.push_back(edge_attr(array, id_count(indices_[type].source)));
    return edges;
  }

  Csc read_edges(const RawGraph& graph, std::size_t type, const Progress& progress) {
    const RawEdges& edges = graph.edges[type];
    const EdgeIndex index = std::move(indices_[type]);  // copies that it holds go as soon as there are rows
    Csc csc = edges_to_csc(
        index.source, index.destination,
        {.sources = graph.nodes[edges.src_type].count, .destinations = graph.nodes[edges.dst_type].count},
        {.keep_edge_ids = keeps_ids(edges),
         .threads = options_.threads,
         .origin = files_.edges[type].index.name()},
        progress);
    if (!options_.keep_edge_ids && !edges.attrs.empty()) csc.edge_id_kind = EdgeIds::kHeld;
    return csc;
  }

  const NumpyGraph& files_;
  const NumpyImportOptions& options_;
  std::vector<EdgeIndex> indices_;
};

NumpyGraph files_of_one_type(const NumpyImportOptions& options) {
  check_title(options.edge_index.stem().string(), "--edge-index: the file's name");
  return {.name = options.edge_index.stem().string(),
          .nodes = {{.count = options.num_nodes > 0 ? std::optional(options.num_nodes) : std::nullopt,
                     .features = options.features,
                     .labels = options.labels,
                     .splits = {options.splits.begin(), options.splits.end()},
                     .attrs = options.node_attrs}},
          .edges = {{.index = options.edge_index,
                     .attrs = options.edge_attrs,
                     .weights = options.weights,
                     .times = options.times}}};
}

/// Whether a file of a graph of one type was given.
bool has_files(const NumpyImportOptions& options) {
  return !options.edge_index.empty() || !options.features.empty() || !options.labels.empty() ||
         std::ranges::any_of(options.splits, [](const auto& split) { return !split.second.empty(); }) ||
         !options.node_attrs.empty() || !options.edge_attrs.empty() || !options.weights.empty() ||
         !options.times.empty() || options.num_nodes != 0;
}

}  // namespace

RawGraph import_numpy(const NumpyImportOptions& options, const Progress& progress) {
  if (!options.hetero.empty() && has_files(options))
    throw Error(ErrorCode::kInvalid,
                "--hetero names a description of the whole graph; leave out the options of single arrays");
  if (options.hetero.empty() && options.edge_index.empty())
    throw Error(ErrorCode::kInvalid, "give --edge-index, or --hetero for a graph of several types");
  const NumpyGraph files =
      options.hetero.empty() ? files_of_one_type(options) : read_numpy_description(options.hetero);
  return import_numpy(files, options, progress);
}

RawGraph import_numpy(const NumpyGraph& graph, const NumpyImportOptions& options, const Progress& progress) {
  return Importer(graph, options).run(progress);
}

}  // namespace hopfeed
