// See numpy_description.h.
#include "partition_tool/numpy_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/mapped_file.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_title.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxDescriptionBytes = 16 << 20;

/// A description: what it is called in complaints, and where its arrays lie.
struct Source {
  const fs::path& path;
  const FindArray& find;
};

/// One object of the description; what it says is checked, and complaints name the file and the object.
class Fields final : public CheckedJson {
 public:
  Fields(const json& object, const Source& source, std::string where)
      : CheckedJson(object), source_(source), path_(source.path), where_(std::move(where)) {
    require_object();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalid, fmt::format("{}: {} {}", path_.string(), where_, what));
  }
  std::string name(const char* key) const {
    std::string value = text(key);
    check(value, key);
    return value;
  }
  std::string optional_text(const char* key) const { return has(key) ? text(key) : ""; }
  ArraySource array(const char* key) const { return has(key) ? found(text(key)) : ArraySource(); }
  std::optional<std::int64_t> count(const char* key) const {
    if (!has(key)) return std::nullopt;
    return whole(key, 0, kMaxNodes);
  }
  /// {"name": "file.npy", ...}
  std::vector<NamedArray> arrays(const char* key) const {
    std::vector<NamedArray> arrays;
    if (!has(key)) return arrays;
    if (!at(key).is_object()) fail(fmt::format("has '{}' that is no object of names and files", key));
    for (const auto& [name, value] : at(key).items()) {
      check(name, key);
      if (!value.is_string()) fail(fmt::format("has no file name for '{}' in '{}'", name, key));
      arrays.push_back({.name = name, .source = found(value.get<std::string>())});
    }
    return arrays;
  }
  std::vector<std::string> optional_texts(const char* key) const {
    return has(key) ? texts(key) : std::vector<std::string>();
  }

 private:
  [[noreturn]] void complain(const JsonFault& fault) const override {
    switch (fault.wanted) {
      case JsonWanted::kObject:
        fail("is no object {...}");
      case JsonWanted::kKnownKey:
        fail(fmt::format("has an unknown field '{}'; it may have: {}", fault.key.substr(0, 40),
                         fmt::join(fault.known, ", ")));
      case JsonWanted::kText:
        if (!fault.value) fail(fmt::format("has no '{}'", fault.key));
        fail(fmt::format("has '{}' that is no text", fault.key));
      case JsonWanted::kWhole:
        fail(fmt::format("has '{}' = {}, expected a whole number from {} to {}", fault.key,
                         json_text(*fault.value).substr(0, 40), fault.least, fault.most));
      default:
        if (fault.item) fail(fmt::format("has an item of '{}' that is no text", fault.key));
        fail(fmt::format("has no list '{}'", fault.key));
    }
  }
  void check(const std::string& value, const char* what) const {
    try {
      check_name(value, what);
    } catch (const Error& error) {
      fail("has an error: " + std::string(error.what()));
    }
  }
  ArraySource found(const std::string& name) const {
    if (name.empty()) fail("names a file of no name");
    return source_.find(name);
  }
  const Source& source_;
  const fs::path& path_;
  const std::string where_;
};

NumpyNodes read_nodes(const Fields& in) {
  in.only({"name", "count", "features", "labels", "splits", "attrs"});
  NumpyNodes nodes{.name = in.name("name"),
                   .count = in.count("count"),
                   .features = in.array("features"),
                   .labels = in.array("labels"),
                   .splits = {},
                   .attrs = in.arrays("attrs")};
  for (const NamedArray& split : in.arrays("splits")) nodes.splits[split.name] = split.source;
  return nodes;
}

NumpyEdges read_edges(const Fields& in, const std::vector<NumpyNodes>& nodes) {
  in.only({"src", "rel", "dst", "index", "attrs", "weights", "times", "rev_of"});
  NumpyEdges edges{.src = in.name("src"),
                   .rel = in.name("rel"),
                   .dst = in.name("dst"),
                   .index = in.array("index"),
                   .attrs = in.arrays("attrs"),
                   .weights = in.optional_texts("weights"),
                   .times = in.optional_texts("times"),
                   .rev_of = in.optional_text("rev_of")};
  if (edges.index.empty()) in.fail("has no 'index'");
  std::string known;
  for (const NumpyNodes& type : nodes) known += (known.empty() ? "" : ", ") + type.name;
  for (const std::string& end : {edges.src, edges.dst}) {
    if (std::ranges::find(nodes, end, &NumpyNodes::name) == nodes.end())
      in.fail(fmt::format("ends at '{}', which is no node type; there are: {}", end, known));
  }
  return edges;
}

std::string full_name(const NumpyEdges& edges) {
  return fmt::format("{}__{}__{}", edges.src, edges.rel, edges.dst);
}

/// The full name of the edge type that `reverse.rev_of` names, in full or by its relation: it leads back.
std::string find_reversed(const Fields& in, const std::vector<NumpyEdges>& all, const NumpyEdges& reverse) {
  std::string back;
  for (const NumpyEdges& edges : all) {
    if (&edges == &reverse || edges.src != reverse.dst || edges.dst != reverse.src) continue;
    std::string name = full_name(edges);
    if (reverse.rev_of != edges.rel && reverse.rev_of != name) {
      back += (back.empty() ? "" : ", ") + name;
      continue;
    }
    if (!edges.rev_of.empty())
      in.fail(fmt::format("is the reverse of '{}', which has rev_of itself; say it once", name));
    return name;
  }
  in.fail(fmt::format("has rev_of '{}', which is no other edge type from '{}' to '{}'; there are: {}",
                      reverse.rev_of, reverse.dst, reverse.src, back.empty() ? "none" : back));
}

}  // namespace

NumpyGraph read_numpy_description(const fs::path& path) {
  return parse_numpy_description(
      read_text_file(path, kMaxDescriptionBytes), path,
      [folder = path.parent_path()](const std::string& name) { return ArraySource(folder / name); });
}

NumpyGraph parse_numpy_description(const std::string& text, const fs::path& path, const FindArray& find) {
  const json document = parse_json(text);
  if (document.is_discarded())
    throw Error(ErrorCode::kInvalid, path.string() + " is no valid JSON: " + json_complaint(text));
  if (const std::string key = repeated_key(text); !key.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}: '{}' is given twice in one place; say it once", path.string(), key));
  const Source source{.path = path, .find = find};
  const Fields in(document, source, "the description");
  in.only({"name", "nodes", "edges"});
  NumpyGraph graph;
  graph.name = document.contains("name") ? in.text("name") : path.stem().string();
  check_title(graph.name, fmt::format("{}: the name", path.string()));
  const auto describe = [](const char* what, std::size_t number) {
    return fmt::format("{} type {}", what, number);
  };
  for (const json& item : in.list("nodes")) {
    const Fields fields(item, source, describe("node", graph.nodes.size()));
    NumpyNodes nodes = read_nodes(fields);
    if (std::ranges::find(graph.nodes, nodes.name, &NumpyNodes::name) != graph.nodes.end())
      fields.fail(fmt::format("is named '{}', as another is", nodes.name));
    graph.nodes.push_back(std::move(nodes));
  }
  for (const json& item : in.list("edges")) {
    const Fields fields(item, source, describe("edge", graph.edges.size()));
    NumpyEdges edges = read_edges(fields, graph.nodes);
    const bool twice = std::ranges::any_of(graph.edges, [&](const NumpyEdges& other) {
      return other.src == edges.src && other.rel == edges.rel && other.dst == edges.dst;
    });
    if (twice)
      fields.fail(fmt::format("is named '{}__{}__{}', as another is", edges.src, edges.rel, edges.dst));
    graph.edges.push_back(std::move(edges));
  }
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    std::string& of = graph.edges[e].rev_of;
    if (!of.empty())
      of = find_reversed(Fields(in.list("edges")[e], source, describe("edge", e)), graph.edges,
                         graph.edges[e]);
  }
  for (const auto& [what, count] : {std::pair{"node", graph.nodes.size()}, {"edge", graph.edges.size()}}) {
    if (count < 1 || count > static_cast<std::size_t>(kMaxTypes))
      in.fail(fmt::format("has {} {} types (1 to {})", count, what, kMaxTypes));
  }
  return graph;
}

}  // namespace hopfeed
