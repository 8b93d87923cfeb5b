// See import_ogb.h.
#include "partition_tool/import_ogb.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/limits.h"
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

EdgeList read_edges(const fs::path& path, std::int64_t num_nodes, bool add_inverse,
                    const Progress& progress) {
  TextLines lines(path);
  EdgeList edges;
  for (std::string_view line; lines.next(line);) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) lines.refuse("expected source,destination");
    const std::int64_t from = parse_node(lines, line.substr(0, comma), num_nodes),
                       to = parse_node(lines, line.substr(comma + 1), num_nodes);
    edges.source.push_back(from);
    edges.destination.push_back(to);
    if (add_inverse) {
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
  features->width = static_cast<std::int64_t>(width);
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
RawEdgeAttr edge_features(const fs::path& path, std::int64_t num_lines, bool add_inverse,
                          const Progress& progress) {
  const auto features = read_features(path, num_lines, "edges", progress);
  const std::int64_t edges_per_line = add_inverse ? 2 : 1;
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

/// The attribute "node_year", by which neighbours are no later than their seed.
void add_years(RawGraph& graph, const fs::path& path) {
  RawNodes& nodes = graph.nodes[0];
  TextLines lines(path);
  const auto years = std::make_shared<std::vector<std::int64_t>>();
  for (std::string_view line; lines.next(line);) years->push_back(parse_integer(lines, line));
  require_lines(lines, nodes.count, "nodes");
  nodes.attrs.push_back({.name = "node_year",
                         .type = ElementType::kInt64,
                         .shape = {},
                         .read_row = [years](std::int64_t node, std::span<std::byte> row) {
                           std::memcpy(row.data(), &(*years)[node], row.size());
                         }});
  graph.edges[0].times = {"node_year"};
}

std::vector<std::int64_t> read_split(const fs::path& path, std::int64_t num_nodes) {
  TextLines lines(path);
  std::vector<std::int64_t> ids;
  for (std::string_view line; lines.next(line);) ids.push_back(parse_node(lines, line, num_nodes));
  return ids;
}

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

}  // namespace

RawGraph import_ogb(const OgbImportOptions& options, const Progress& progress) {
  const fs::path raw = options.raw / "raw";
  const fs::path splits = split_folder(options);
  const std::int64_t num_nodes = read_count(require_csv(raw, "num-node-list"), kMaxNodes);
  const fs::path edge_path = require_csv(raw, "edge");
  RawGraph graph = graph_of_one_type(fs::absolute(options.raw).lexically_normal().filename().string());
  RawNodes& nodes = graph.nodes[0];
  Csc& csc = graph.edges[0].csc;
  nodes.count = num_nodes;
  {
    const EdgeList edges = read_edges(edge_path, num_nodes, options.add_inverse_edge, progress);
    if (const auto path = find_csv(raw, "num-edge-list")) {
      const std::int64_t listed = std::ssize(edges.source) / (options.add_inverse_edge ? 2 : 1),
                         promised = read_count(*path, kMaxEdges);
      if (listed != promised)
        throw Error(ErrorCode::kInvalid, fmt::format("{} has {} lines, but {} says {} edges",
                                                     edge_path.string(), listed, path->string(), promised));
    }
    const auto features = find_csv(raw, "edge-feat");
    csc = edges_to_csc(std::span(edges.source), std::span(edges.destination),
                       {.sources = num_nodes, .destinations = num_nodes},
                       {.keep_edge_ids = options.keep_edge_ids || features,
                        .threads = options.threads,
                        .origin = edge_path.string()},
                       progress);
    if (features && !options.keep_edge_ids) csc.edge_id_kind = EdgeIds::kHeld;
    if (features)
      graph.edges[0].attrs.push_back(
          edge_features(*features, std::ssize(edges.source) / (options.add_inverse_edge ? 2 : 1),
                        options.add_inverse_edge, progress));
  }
  if (const auto path = find_csv(raw, "node-feat"))
    nodes.attrs.push_back(node_features(*path, num_nodes, progress));
  if (const auto path = find_csv(raw, "node-label")) set_labels(nodes, read_labels(*path, num_nodes));
  if (const auto path = find_csv(raw, "node_year")) add_years(graph, *path);
  for (const char* name : {"train", "valid", "test"})
    nodes.splits[name] = read_split(require_csv(splits, name), num_nodes);
  return graph;
}

}  // namespace hopfeed
