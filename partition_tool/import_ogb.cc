// See import_ogb.h.
#include "partition_tool/import_ogb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_title.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/labels.h"
#include "partition_tool/text_lines.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReportLines = 1 << 14;

/// FOLDER/STEM.csv.gz or FOLDER/STEM.csv; nothing where neither is there.
std::optional<fs::path> find_csv(const fs::path& folder, const std::string& stem) {
  for (const char* ending : {".csv.gz", ".csv"}) {
    if (fs::exists(folder / (stem + ending))) return folder / (stem + ending);
  }
  return std::nullopt;
}

fs::path require_csv(const fs::path& folder, const std::string& stem) {
  if (const auto path = find_csv(folder, stem)) return *path;
  throw Error(ErrorCode::kNotFound,
              fmt::format("{} has no {}.csv.gz; --raw must name a folder with OGB's raw/ and split/",
                          folder.string(), stem));
}

/// The one number of num-node-list or num-edge-list.
std::int64_t read_count(const fs::path& path, std::int64_t limit) {
  TextLines lines(path);
  std::string_view line;
  if (!lines.next(line)) throw Error(ErrorCode::kInvalid, path.string() + " is empty; expected one number");
  const std::int64_t count = parse_integer(lines, line);
  if (count < 0 || count > limit) lines.refuse(fmt::format("{} is out of range (0 to {})", count, limit));
  if (lines.next(line)) lines.refuse("a second graph; hopfeed imports datasets of one graph");
  return count;
}

std::int64_t parse_node(const TextLines& lines, std::string_view field, std::int64_t num_nodes) {
  const std::int64_t id = parse_integer(lines, field);
  if (id < 0 || id >= num_nodes)
    lines.refuse(fmt::format("node {} is out of range, there are {} nodes", id, num_nodes));
  return id;
}

struct EdgeList {
  std::vector<std::int64_t> source, destination;
};

/// How lines become edges.
enum class Inverse {
  kNone,   // source,destination
  kAfter,  // edge 2i is line i, edge 2i + 1 its inverse
  kAlone,  // the inverses alone, of an edge type back
};

EdgeList read_edges(const fs::path& path, std::int64_t num_sources, std::int64_t num_destinations,
                    Inverse inverse, const Progress& progress) {
  TextLines lines(path);
  EdgeList edges;
  for (std::string_view line; lines.next(line);) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) lines.refuse("expected source,destination");
    const std::int64_t from = parse_node(lines, line.substr(0, comma), num_sources),
                       to = parse_node(lines, line.substr(comma + 1), num_destinations);
    if (inverse != Inverse::kAlone) {
      edges.source.push_back(from);
      edges.destination.push_back(to);
    }
    if (inverse != Inverse::kNone) {
      edges.source.push_back(to);
      edges.destination.push_back(from);
    }
    if (lines.number() % kReportLines == 0)
      progress({"Reading edges", "lines", static_cast<std::uint64_t>(lines.number()), 0});
  }
  return edges;
}

void require_lines(const TextLines& lines, std::int64_t expected, const char* of) {
  if (lines.number() != expected)
    throw Error(ErrorCode::kInvalid, fmt::format("{} has {} lines, but there are {} {}",
                                                 lines.path().string(), lines.number(), expected, of));
}

/// Lines of numbers, one per node or edge.
struct Features {
  std::int64_t width = 0;
  std::vector<float> values;
};

std::shared_ptr<const Features> read_features(const fs::path& path, std::int64_t rows, const char* of,
                                              const Progress& progress) {
  TextLines lines(path);
  const auto features = std::make_shared<Features>();
  std::vector<float>& values = features->values;
  std::size_t width = 0;
  for (std::string_view line; lines.next(line);) {
    const std::size_t before = values.size();
    for_each_field(line, [&](std::string_view field) { values.push_back(parse_float(lines, field)); });
    const std::size_t found = values.size() - before;
    if (width == 0) {
      width = found;
      if (width > static_cast<std::size_t>(kMaxRowBytes) / 4)
        lines.refuse(fmt::format("{} features are too many (at most {})", width, kMaxRowBytes / 4));
      values.reserve(width * static_cast<std::size_t>(rows));
    }
    if (found != width) lines.refuse(fmt::format("{} features where line 1 has {}", found, width));
    if (lines.number() > rows) break;
    if (lines.number() % kReportLines == 0)
      progress({"Reading features", "rows", static_cast<std::uint64_t>(lines.number()),
                static_cast<std::uint64_t>(rows)});
  }
  require_lines(lines, rows, of);
  features->width =
      std::max<std::int64_t>(static_cast<std::int64_t>(width), 1);  // no row tells where there is none
  return features;
}

RawAttr node_features(const fs::path& path, std::int64_t num_nodes, const Progress& progress) {
  const auto features = read_features(path, num_nodes, "nodes", progress);
  return {.name = "x",
          .type = ElementType::kFloat32,
          .shape = {features->width},
          .read_row = [features](std::int64_t node, std::span<std::byte> row) {
            std::memcpy(row.data(), features->values.data() + node * features->width, row.size());
          }};
}

/// An edge and its inverse have the features of their line.
RawEdgeAttr edge_features(const std::shared_ptr<const Features>& features, std::int64_t edges_per_line) {
  return {.name = "edge_attr",
          .type = ElementType::kFloat32,
          .shape = {features->width},
          .read_rows = [features, edges_per_line](std::int64_t, std::span<const std::int64_t> edge_ids,
                                                  std::span<std::byte> rows) {
            const std::int64_t width = features->width;
            for (std::size_t i = 0; i < edge_ids.size(); ++i)
              std::memcpy(rows.data() + i * width * 4,
                          features->values.data() + edge_ids[i] / edges_per_line * width, width * 4);
          }};
}

std::vector<std::int64_t> read_labels(const fs::path& path, std::int64_t num_nodes) {
  TextLines lines(path);
  std::vector<std::int64_t> labels;
  for (std::string_view line; lines.next(line);) {
    if (line.find(',') != std::string_view::npos)
      lines.refuse("several labels per node; hopfeed imports one class per node");
    const std::optional<std::int64_t> label = label_from(parse_float(lines, line));
    if (!label) lines.refuse(fmt::format("{} is no class number", line));
    labels.push_back(*label);
  }
  require_lines(lines, num_nodes, "nodes");
  return labels;
}

/// The attribute "node_year".
RawAttr node_years(const fs::path& path, std::int64_t num_nodes) {
  TextLines lines(path);
  const auto years = std::make_shared<std::vector<std::int64_t>>();
  for (std::string_view line; lines.next(line);) years->push_back(parse_integer(lines, line));
  require_lines(lines, num_nodes, "nodes");
  return {.name = "node_year",
          .type = ElementType::kInt64,
          .shape = {},
          .read_row = [years](std::int64_t node, std::span<std::byte> row) {
            std::memcpy(row.data(), &(*years)[node], row.size());
          }};
}

std::vector<std::int64_t> read_split(const fs::path& path, std::int64_t num_nodes) {
  TextLines lines(path);
  std::vector<std::int64_t> ids;
  for (std::string_view line; lines.next(line);) ids.push_back(parse_node(lines, line, num_nodes));
  return ids;
}

/// The folder of the wanted scheme, or of the only one.
fs::path split_folder(const OgbImportOptions& options) {
  const fs::path splits = options.raw / "split";
  if (!fs::is_directory(splits))
    throw Error(
        ErrorCode::kNotFound,
        options.raw.string() + " has no folder split; --raw must name a folder with OGB's raw/ and split/");
  std::vector<std::string> schemes;
  for (const fs::directory_entry& entry : fs::directory_iterator(splits)) {
    if (entry.is_directory()) schemes.push_back(entry.path().filename().string());
  }
  std::string wanted = options.split_scheme;
  if (wanted.empty() && schemes.size() == 1) wanted = schemes[0];
  for (const std::string& scheme : schemes) {
    if (scheme == wanted) return splits / scheme;
  }
  std::string known;
  for (const std::string& scheme : schemes) known += (known.empty() ? "" : ", ") + scheme;
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} has the schemes: {}; choose one with --split-scheme", splits.string(), known));
}

void read_splits(RawNodes& nodes, const fs::path& folder) {
  for (const char* name : {"train", "valid", "test"})
    nodes.splits[name] = read_split(require_csv(folder, name), nodes.count);
}

/// What the folders tell of the nodes of a type, whose count is known.
void read_nodes(RawNodes& nodes, const fs::path& features, const fs::path& labels, const Progress& progress) {
  if (const auto path = find_csv(features, "node-feat"))
    nodes.attrs.push_back(node_features(*path, nodes.count, progress));
  if (const auto path = find_csv(labels, "node-label")) set_labels(nodes, read_labels(*path, nodes.count));
  if (const auto path = find_csv(features, "node_year"))
    nodes.attrs.push_back(node_years(*path, nodes.count));
}

/// One number per line: weighted batches draw by it.
void add_weights(RawEdges& edges, const fs::path& path, std::int64_t num_lines, std::int64_t edges_per_line,
                 const Progress& progress) {
  const auto weights = read_features(path, num_lines, "edges", progress);
  if (weights->width > 1)
    throw Error(ErrorCode::kInvalid, path.string() + " has several numbers in a line; a weight is one");
  edges.attrs.push_back(edge_features(weights, edges_per_line));
  edges.attrs.back().name = "weight";
  edges.attrs.back().shape = {};
  edges.attrs.back().origin = path.string();
  edges.weights = {"weight"};
}

/// An edge type that is to be read.
struct ToRead {
  fs::path folder;
  int src_type = 0, dst_type = 0;
  Inverse inverse = Inverse::kNone;
};

/// Bytes of the floats in FOLDER/STEM, by its first line.
std::uint64_t features_bytes(const fs::path& folder, const std::string& stem, std::int64_t rows) {
  const auto path = find_csv(folder, stem);
  if (!path) return 0;
  TextLines lines(*path);
  std::string_view line;
  if (!lines.next(line)) return 0;
  return static_cast<std::uint64_t>(rows) * 4 *
         (1 + static_cast<std::uint64_t>(std::ranges::count(line, ',')));
}

/// Says what the import wants, by the numbers that the folders name; where they name no number of edges,
/// nothing is known before they are read. `of_nodes`: folders with the features of each type.
void tell_memory(const RawGraph& graph, const std::vector<fs::path>& of_nodes,
                 const std::vector<ToRead>& edges, const OgbImportOptions& options) {
  GraphCounts counts;
  std::uint64_t lists = 0;
  for (std::size_t t = 0; t < graph.nodes.size(); ++t) {
    counts.nodes.push_back(graph.nodes[t].count);
    counts.beside += features_bytes(of_nodes[t], "node-feat", graph.nodes[t].count) +
                     static_cast<std::uint64_t>(graph.nodes[t].count) * 8;  // labels
  }
  for (const ToRead& type : edges) {
    const auto path = find_csv(type.folder, "num-edge-list");
    if (!path) return;
    const std::int64_t num_lines = read_count(*path, kMaxEdges),
                       count = num_lines * (type.inverse == Inverse::kAfter ? 2 : 1);
    const std::uint64_t attrs = features_bytes(type.folder, "edge-feat", num_lines) +
                                features_bytes(type.folder, "edge-weight", num_lines);
    counts.edges.push_back({.src_type = type.src_type,
                            .dst_type = type.dst_type,
                            .count = count,
                            .stored_edge_ids = options.keep_edge_ids || attrs > 0});
    counts.beside += attrs;
    lists = std::max(lists, static_cast<std::uint64_t>(count) * 2 * 8);
  }
  want_memory(options.tell_memory, {.what = "importing " + options.raw.string(),
                                    .knobs = "--no-edge-ids saves some, else use a machine with more",
                                    .bytes = import_bytes(counts, lists)});
}

/// What the folder tells of the edges of a type, whose ends' nodes have been read.
void read_edge_type(const RawGraph& graph, RawEdges& type, const fs::path& folder, Inverse inverse,
                    const OgbImportOptions& options, const Progress& progress) {
  const RawNodes &sources = graph.nodes[type.src_type], &destinations = graph.nodes[type.dst_type];
  const fs::path path = require_csv(folder, "edge");
  const EdgeList edges = inverse == Inverse::kAlone
                             ? read_edges(path, destinations.count, sources.count, inverse, progress)
                             : read_edges(path, sources.count, destinations.count, inverse, progress);
  const std::int64_t edges_per_line = inverse == Inverse::kAfter ? 2 : 1,
                     num_lines = std::ssize(edges.source) / edges_per_line;
  if (const auto count = find_csv(folder, "num-edge-list")) {
    const std::int64_t promised = read_count(*count, kMaxEdges);
    if (num_lines != promised)
      throw Error(ErrorCode::kInvalid, fmt::format("{} has {} lines, but {} says {} edges", path.string(),
                                                   num_lines, count->string(), promised));
  }
  if (const auto features = find_csv(folder, "edge-feat"))
    type.attrs.push_back(
        edge_features(read_features(*features, num_lines, "edges", progress), edges_per_line));
  if (const auto weights = find_csv(folder, "edge-weight"))
    add_weights(type, *weights, num_lines, edges_per_line, progress);
  if (std::ranges::find(sources.attrs, "node_year", &RawAttr::name) != sources.attrs.end())
    type.times = {"node_year"};
  type.csc = edges_to_csc(std::span(edges.source), std::span(edges.destination),
                          {.sources = sources.count, .destinations = destinations.count},
                          {.keep_edge_ids = options.keep_edge_ids || !type.attrs.empty(),
                           .threads = options.threads,
                           .origin = path.string()},
                          progress);
  if (!type.attrs.empty() && !options.keep_edge_ids) type.csc.edge_id_kind = EdgeIds::kHeld;
}

// ---- several types

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for_each_field(line, [&](std::string_view field) { fields.emplace_back(field); });
  return fields;
}

/// A line of names, and one with the number of nodes of each.
std::vector<RawNodes> read_node_types(const fs::path& path) {
  TextLines lines(path);
  std::string_view line;
  if (!lines.next(line))
    throw Error(ErrorCode::kInvalid, path.string() + " is empty; expected names of types");
  std::vector<RawNodes> types;
  for (const std::string& name : fields_of(line)) {
    check_name(name, "node type");
    types.push_back({.name = name, .count = 0, .attrs = {}, .splits = {}});
  }
  if (!lines.next(line)) lines.refuse("a line with the number of nodes of each type is missing");
  const std::vector<std::string> counts = fields_of(line);
  if (counts.size() != types.size())
    lines.refuse(fmt::format("{} numbers for {} types", counts.size(), types.size()));
  for (std::size_t t = 0; t < types.size(); ++t) {
    types[t].count = parse_integer(lines, counts[t]);
    if (types[t].count < 0 || types[t].count > kMaxNodes)
      lines.refuse(fmt::format("{} is out of range (0 to {})", counts[t], kMaxNodes));
  }
  if (std::ranges::all_of(types, [](const RawNodes& type) { return type.count == 0; }))
    lines.refuse("the graph has no nodes");
  if (lines.next(line)) lines.refuse("a second graph; hopfeed imports datasets of one graph");
  return types;
}

/// "paper___cites___paper".
RawEdges edges_named(const RawGraph& graph, const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::size_t first = name.find("___"), second = name.find("___", first + 3);
  const auto type_of = [&](const std::string& type) {
    const auto found = std::ranges::find(graph.nodes, type, &RawNodes::name);
    if (found != graph.nodes.end()) return static_cast<int>(found - graph.nodes.begin());
    throw Error(ErrorCode::kInvalid, fmt::format("{}: there is no node type '{}'", folder.string(), type));
  };
  if (first == std::string::npos || second == std::string::npos)
    throw Error(ErrorCode::kInvalid, folder.string() + " is not named source___relation___destination");
  RawEdges edges{.src_type = type_of(name.substr(0, first)),
                 .dst_type = type_of(name.substr(second + 3)),
                 .rel = name.substr(first + 3, second - first - 3),
                 .csc = {},
                 .attrs = {},
                 .weights = {},
                 .times = {}};
  check_name(edges.rel, "relation");
  return edges;
}

/// Held-out links must be no edges of the graph, or a model has seen what it is asked. Line i + 1 has link i.
void require_no_edges(const fs::path& path, const EdgeList& links, const Csc& csc) {
  std::vector<std::size_t> order(links.source.size());  // links of one destination together
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(links.destination[i], i); });
  std::vector<std::int64_t> row;
  std::int64_t row_of = -1;
  std::visit(
      [&](const auto& sources) {
        for (const std::size_t i : order) {
          if (links.destination[i] != row_of) {
            row_of = links.destination[i];
            row.assign(sources.begin() + csc.indptr[row_of], sources.begin() + csc.indptr[row_of + 1]);
            std::ranges::sort(row);
          }
          if (std::ranges::binary_search(row, links.source[i]))
            throw Error(
                ErrorCode::kInvalid,
                fmt::format("{}, line {}: {},{} is held out and an edge of raw too; take it out of one",
                            path.string(), i + 1, links.source[i], row_of));
        }
      },
      csc.indices);
}

/// What the folders train, valid and test beside raw hold of the edge type: lines `source,destination`.
void read_edge_splits(const RawGraph& graph, RawEdges& type, const OgbImportOptions& options,
                      const std::string& folder, const Progress& progress) {
  for (const std::string name : {"train", "valid", "test"}) {
    const auto path = find_csv(options.raw / name, folder);
    if (!path) continue;
    const EdgeList links = read_edges(*path, graph.nodes[type.src_type].count,
                                      graph.nodes[type.dst_type].count, Inverse::kNone, progress);
    if (name != "train") require_no_edges(*path, links, type.csc);
    HeldLinks held;
    for (std::size_t i = 0; i < links.source.size(); ++i)
      held.pairs.insert(held.pairs.end(), {links.source[i], links.destination[i]});
    type.splits[name] = raw_links(std::move(held));
  }
}

void tell_memory_of_types(const RawGraph& graph, const fs::path& raw, const std::vector<fs::path>& folders,
                          const OgbImportOptions& options) {
  std::vector<fs::path> of_nodes;
  for (const RawNodes& nodes : graph.nodes) of_nodes.push_back(raw / "node-feat" / nodes.name);
  std::vector<ToRead> edges;
  for (const fs::path& folder : folders) {
    const RawEdges type = edges_named(graph, folder);
    edges.push_back({.folder = folder, .src_type = type.src_type, .dst_type = type.dst_type});
    if (options.add_inverse_edge)
      edges.push_back({.folder = folder,
                       .src_type = type.dst_type,
                       .dst_type = type.src_type,
                       .inverse = Inverse::kAlone});
  }
  tell_memory(graph, of_nodes, edges, options);
}

RawGraph import_types(const OgbImportOptions& options, const Progress& progress) {
  const fs::path raw = options.raw / "raw";
  const auto beside = find_csv(options.raw, "num-nodes");
  RawGraph graph;
  graph.nodes = read_node_types(beside ? *beside : require_csv(raw, "num-node-dict"));
  const fs::path splits = fs::is_directory(options.raw / "split") ? split_folder(options) : fs::path();
  const auto has_split = [&](const RawNodes& nodes) {
    return !splits.empty() && fs::is_directory(splits / nodes.name);
  };
  std::ranges::stable_partition(graph.nodes,
                                has_split);  // the first type is whose nodes are seeds by default
  std::vector<fs::path> folders(fs::directory_iterator(raw / "relations"), {});
  std::ranges::sort(folders);
  tell_memory_of_types(graph, raw, folders, options);
  for (RawNodes& nodes : graph.nodes) {
    read_nodes(nodes, raw / "node-feat" / nodes.name, raw / "node-label" / nodes.name, progress);
    if (has_split(nodes)) read_splits(nodes, splits / nodes.name);
  }
  for (const fs::path& folder : folders) {
    RawEdges edges = edges_named(graph, folder);
    RawEdges back = edges;
    read_edge_type(graph, edges, folder, Inverse::kNone, options, progress);
    read_edge_splits(graph, edges, options, folder.filename().string(), progress);
    graph.edges.push_back(std::move(edges));
    if (!options.add_inverse_edge) continue;
    std::swap(back.src_type, back.dst_type);
    back.rel = "rev_" + back.rel;
    back.rev_of = graph.edge_name(graph.edges.back());
    read_edge_type(graph, back, folder, Inverse::kAlone, options, progress);
    graph.edges.push_back(std::move(back));
  }
  return graph;
}

}  // namespace

RawGraph import_ogb(const OgbImportOptions& options, const Progress& progress) {
  const fs::path raw = options.raw / "raw";
  const bool typed = fs::is_directory(raw / "relations");
  const std::string name = fs::absolute(options.raw).lexically_normal().filename().string();
  check_title(name, "--raw: the folder's name");
  RawGraph graph = typed ? import_types(options, progress) : graph_of_one_type(name);
  graph.name = name;
  if (typed) return graph;
  const fs::path splits = split_folder(options);
  RawNodes& nodes = graph.nodes[0];
  const Inverse inverse = options.add_inverse_edge ? Inverse::kAfter : Inverse::kNone;
  nodes.count = read_count(require_csv(raw, "num-node-list"), kMaxNodes);
  tell_memory(graph, {raw}, {{.folder = raw, .inverse = inverse}}, options);
  read_nodes(nodes, raw, raw, progress);
  read_edge_type(graph, graph.edges[0], raw, inverse, options, progress);
  read_splits(nodes, splits);
  return graph;
}

}  // namespace hopfeed
