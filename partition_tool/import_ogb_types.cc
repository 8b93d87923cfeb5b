// See import_ogb_types.h.
#include "partition_tool/import_ogb_types.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/dataset_meta.h"
#include "core/error.h"
#include "core/limits.h"
#include "partition_tool/edge_arrays.h"
#include "partition_tool/labels.h"
#include "partition_tool/ogb_files.h"
#include "partition_tool/text_lines.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// Names and counts of the node types, in the order of the file.
std::vector<RawNodes> read_node_types(const fs::path& folder) {
  const auto beside = find_csv(folder, "num-nodes");
  const fs::path path = beside ? *beside : require_csv(folder / "raw", "num-node-dict");
  TextLines lines(path);
  std::vector<RawNodes> types;
  std::string_view line;
  if (!lines.next(line))
    throw Error(ErrorCode::kInvalid, path.string() + " is empty; expected names of types");
  for_each_field(line, [&](std::string_view name) {
    check_name(std::string(name), "node type");
    if (std::ranges::find(types, name, &RawNodes::name) != types.end())
      lines.refuse(fmt::format("node type '{}' comes twice", name));
    types.push_back({.name = std::string(name), .attrs = {}, .splits = {}});
  });
  std::size_t read = 0;
  if (!lines.next(line)) lines.refuse("expected a second line with the numbers of nodes");
  for_each_field(line, [&](std::string_view field) {
    if (read == types.size()) lines.refuse(fmt::format("more numbers than the {} types", types.size()));
    const std::int64_t count = parse_integer(lines, field);
    if (count < 0 || count > kMaxNodes)
      lines.refuse(fmt::format("{} is out of range (0 to {})", count, kMaxNodes));
    types[read++].count = count;
  });
  if (read < types.size()) lines.refuse(fmt::format("{} numbers for {} types", read, types.size()));
  if (lines.next(line)) lines.refuse("a second graph; hopfeed imports datasets of one graph");
  return types;
}

struct Triplet {
  std::string src, rel, dst;
  std::string folder() const { return src + "___" + rel + "___" + dst; }
};

/// "a___b___c" or "a,b,c"; `fail(what)` throws.
template <class Fail>
Triplet parse_triplet(std::string_view text, std::string_view separator, const Fail& fail) {
  const std::size_t first = text.find(separator);
  const std::size_t last = text.rfind(separator);
  if (first == std::string_view::npos || last < first + separator.size())
    fail(fmt::format("'{}' is no source type, relation and destination type", text));
  return {.src = std::string(text.substr(0, first)),
          .rel = std::string(text.substr(first + separator.size(), last - first - separator.size())),
          .dst = std::string(text.substr(last + separator.size()))};
}

/// In rising order.
std::vector<Triplet> read_triplets(const fs::path& raw) {
  std::vector<Triplet> triplets;
  if (const auto path = find_csv(raw, "triplet-type-list")) {
    TextLines lines(*path);
    for (std::string_view line; lines.next(line);)
      triplets.push_back(parse_triplet(line, ",", [&](const std::string& what) { lines.refuse(what); }));
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(raw / "relations")) {
      const auto fail = [&](const std::string& what) {
        throw Error(ErrorCode::kInvalid, (raw / "relations").string() + ": the folder " + what);
      };
      if (entry.is_directory())
        triplets.push_back(parse_triplet(entry.path().filename().string(), "___", fail));
    }
  }
  std::ranges::sort(triplets, {}, &Triplet::folder);
  if (triplets.empty())
    throw Error(ErrorCode::kInvalid, (raw / "relations").string() + " has no folder SRC___REL___DST");
  const auto twice = std::ranges::adjacent_find(triplets, {}, &Triplet::folder);
  if (twice != triplets.end())
    throw Error(ErrorCode::kInvalid, raw.string() + ": the relation " + twice->folder() + " comes twice");
  for (const Triplet& triplet : triplets) check_name(triplet.rel, "relation");
  return triplets;
}

/// Reads what lies in folders named after the node type.
void read_node_files(const OgbImportOptions& options, const std::optional<fs::path>& splits,
                     const Progress& progress, RawNodes& nodes) {
  const fs::path raw = options.raw / "raw";
  if (const auto path = find_csv(raw / "node-feat" / nodes.name, "node-feat"))
    nodes.attrs.push_back(ogb_node_features(*path, nodes.count, progress));
  if (const auto path = find_csv(raw / "node-label" / nodes.name, "node-label"))
    set_labels(nodes, read_ogb_labels(*path, nodes.count));
  if (!splits || !fs::is_directory(*splits / nodes.name)) return;
  for (const char* name : {"train", "valid", "test"})
    nodes.splits[name] = read_ogb_split(require_csv(*splits / nodes.name, name), nodes.count);
}

int find_type(const RawGraph& graph, const std::string& name, const fs::path& folder) {
  const auto found = std::ranges::find(graph.nodes, name, &RawNodes::name);
  if (found != graph.nodes.end()) return static_cast<int>(found - graph.nodes.begin());
  std::string known;
  for (const RawNodes& nodes : graph.nodes) known += (known.empty() ? "" : ", ") + nodes.name;
  throw Error(ErrorCode::kInvalid,
              fmt::format("{}: '{}' is no node type; there are: {}", folder.string(), name, known));
}

void add_relation(const OgbImportOptions& options, const Triplet& triplet, const Progress& progress,
                  RawGraph& graph) {
  const fs::path folder = options.raw / "raw" / "relations" / triplet.folder(),
                 path = require_csv(folder, "edge");
  RawEdges type{.src_type = find_type(graph, triplet.src, folder),
                .dst_type = find_type(graph, triplet.dst, folder),
                .rel = triplet.rel,
                .csc = {},
                .attrs = {},
                .weights = {},
                .times = {}};
  const EdgeEnds ends{.sources = graph.nodes[type.src_type].count,
                      .destinations = graph.nodes[type.dst_type].count};
  const OgbEdges edges = read_ogb_edges(path, {.ends = ends}, progress);
  const OgbEdgeLines lines{.lines = std::ssize(edges.source)};
  if (const auto features = find_csv(folder, "edge-feat"))
    type.attrs.push_back(ogb_edge_features(*features, "edge_attr", lines, progress));
  if (const auto weights = find_csv(folder, "edge-weight")) {
    type.attrs.push_back(ogb_edge_features(*weights, "edge_weight", lines, progress));
    if (type.attrs.back().shape == std::vector<std::int64_t>{1}) type.attrs.back().shape.clear();
    type.weights = {"edge_weight"};
  }
  const EdgesToCscOptions how{.keep_edge_ids = options.keep_edge_ids || !type.attrs.empty(),
                              .threads = options.threads,
                              .origin = path.string()};
  const auto add = [&](const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to,
                       const EdgeEnds& at) {
    graph.edges.push_back(type);
    Csc& csc = graph.edges.back().csc;
    csc = edges_to_csc(std::span(from), std::span(to), at, how, progress);
    if (!options.keep_edge_ids && !type.attrs.empty()) csc.edge_id_kind = EdgeIds::kHeld;
  };
  add(edges.source, edges.destination, ends);
  if (!options.add_inverse_edge) return;
  std::swap(type.src_type, type.dst_type);
  type.rel = "rev_" + triplet.rel;
  add(edges.destination, edges.source, {.sources = ends.destinations, .destinations = ends.sources});
}

}  // namespace

RawGraph import_ogb_types(const OgbImportOptions& options, const Progress& progress) {
  RawGraph graph;
  graph.name = fs::absolute(options.raw).lexically_normal().filename().string();
  graph.nodes = read_node_types(options.raw);
  std::optional<fs::path> splits;
  if (fs::is_directory(options.raw / "split")) splits = ogb_split_folder(options.raw, options.split_scheme);
  for (RawNodes& nodes : graph.nodes) read_node_files(options, splits, progress, nodes);
  std::ranges::stable_partition(graph.nodes, [](const RawNodes& nodes) { return !nodes.splits.empty(); });
  for (const Triplet& triplet : read_triplets(options.raw / "raw"))
    add_relation(options, triplet, progress, graph);
  check_weights_and_times(graph);
  return graph;
}

}  // namespace hopfeed
