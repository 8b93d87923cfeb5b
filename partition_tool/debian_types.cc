// See debian_types.h.
#include "partition_tool/debian_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hopfeed {
namespace {

/// "Pre-Depends" is "pre_depends".
std::string edge_name(std::string_view field) {
  std::string name(field);
  for (char& c : name) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

/// The nodes of another type that each package belongs to.
struct Belonging {
  std::int64_t count = 0;         // of nodes
  std::vector<DebianEdge> edges;  // package -> node
};

/// `names_of(package)` gives the names of its nodes; empty ones are none.
template <class NamesOf>
Belonging belong(const std::vector<DebianPackage>& packages, const NamesOf& names_of) {
  std::vector<std::string_view> names;
  for (const DebianPackage& package : packages)
    std::ranges::copy(names_of(package), std::back_inserter(names));
  std::ranges::sort(names);
  const auto repeats = std::ranges::unique(names);
  names.erase(repeats.begin(), repeats.end());
  std::erase(names, std::string_view());
  Belonging belonging{.count = std::ssize(names), .edges = {}};
  for (std::int32_t v = 0; v < std::ssize(packages); ++v) {
    for (std::string_view name : names_of(packages[v])) {
      if (name.empty()) continue;
      const auto at = std::ranges::lower_bound(names, name) - names.begin();
      belonging.edges.push_back({.destination = static_cast<std::int32_t>(at), .source = v});
    }
  }
  std::ranges::sort(belonging.edges);
  const auto twice = std::ranges::unique(belonging.edges);
  belonging.edges.erase(twice.begin(), twice.end());
  return belonging;
}

/// The mean of the packages' rows, scaled to length 1; summed in the order of the packages.
DebianFeatures mean_features(const Belonging& belonging, const std::vector<float>& of_packages) {
  std::vector<double> sums(belonging.count * kDebianFeatures);
  for (const DebianEdge& edge : belonging.edges) {
    for (std::int64_t f = 0; f < kDebianFeatures; ++f)
      sums[edge.destination * kDebianFeatures + f] += of_packages[edge.source * kDebianFeatures + f];
  }
  std::vector<float> features(sums.size());
  for (std::int64_t v = 0; v < belonging.count; ++v) {
    const double* row = sums.data() + v * kDebianFeatures;
    double squares = 0;
    for (std::int64_t f = 0; f < kDebianFeatures; ++f) squares += row[f] * row[f];
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (std::int64_t f = 0; f < kDebianFeatures; ++f)
      features[v * kDebianFeatures + f] = static_cast<float>(row[f] * scale);
  }
  return std::make_shared<const std::vector<float>>(std::move(features));
}

/// Adds edge types, each with its reverse.
class TypeAdder {
 public:
  TypeAdder(const DebianEdgeOptions& options, const Progress& progress, RawGraph& graph)
      : options_(options), progress_(progress), graph_(graph) {}

  void add(std::vector<DebianEdge> edges, int dst_type, const std::string& rel) {
    std::vector<DebianEdge> reverse;
    for (const DebianEdge& edge : edges)
      reverse.push_back({.destination = edge.source, .source = edge.destination});
    add_one(std::move(edges), 0, dst_type, rel);
    add_one(std::move(reverse), dst_type, 0, "rev_" + rel);
    const std::size_t last = graph_.edges.size() - 1;
    graph_.edges[last].rev_of = graph_.edge_name(graph_.edges[last - 1]);
  }

 private:
  void add_one(std::vector<DebianEdge> edges, int src_type, int dst_type, const std::string& rel) {
    RawEdges type =
        debian_edges(std::move(edges),
                     {.sources = graph_.nodes[src_type].count, .destinations = graph_.nodes[dst_type].count},
                     options_, progress_);
    type.src_type = src_type;
    type.dst_type = dst_type;
    type.rel = rel;
    graph_.edges.push_back(std::move(type));
  }
  const DebianEdgeOptions& options_;
  const Progress& progress_;
  RawGraph& graph_;
};

/// What packages say of each other in one field.
std::vector<DebianEdge> edges_of_kind(const std::vector<DebianPackage>& packages, int kind) {
  std::vector<DebianEdge> edges;
  for (std::int32_t v = 0; v < std::ssize(packages); ++v) {
    for (const DebianRelation& relation : packages[v].relations) {
      if (relation.kind != kind) continue;
      const std::int32_t u = find_package(packages, relation.name);
      if (u >= 0 && u != v) edges.push_back({.destination = u, .source = v});
    }
  }
  return edges;
}

}  // namespace

RawAttr debian_attr(const DebianFeatures& features) {
  return {.name = "x",
          .type = ElementType::kFloat32,
          .shape = {kDebianFeatures},
          .read_row = [features](std::int64_t node, std::span<std::byte> row) {
            std::memcpy(row.data(), features->data() + node * kDebianFeatures, row.size());
          }};
}

std::int32_t find_package(const std::vector<DebianPackage>& packages, std::string_view name) {
  const auto at = std::ranges::lower_bound(packages, name, {}, &DebianPackage::name);
  return at != packages.end() && at->name == name ? static_cast<std::int32_t>(at - packages.begin()) : -1;
}

RawEdges debian_edges(std::vector<DebianEdge> edges, const EdgeEnds& ends, const DebianEdgeOptions& options,
                      const Progress& progress) {
  std::ranges::sort(edges);
  const auto repeats = std::ranges::unique(edges);
  edges.erase(repeats.begin(), repeats.end());
  std::vector<std::int32_t> source, destination;
  for (const DebianEdge& edge : edges) {
    source.push_back(edge.source);
    destination.push_back(edge.destination);
  }
  RawEdges type;
  type.csc = edges_to_csc(std::span<const std::int32_t>(source), std::span<const std::int32_t>(destination),
                          ends, options, progress);
  return type;
}

void make_debian_types(const std::vector<DebianPackage>& packages, const DebianFeatures& features,
                       const DebianEdgeOptions& options, const Progress& progress, RawGraph& graph) {
  using Names = std::vector<std::string_view>;
  graph.nodes[0].name = "package";
  graph.edges.clear();
  TypeAdder types(options, progress, graph);
  for (int kind = 0; kind < static_cast<int>(std::size(kDebianRelations)); ++kind)
    types.add(edges_of_kind(packages, kind), 0, edge_name(kDebianRelations[kind]));
  const auto add = [&](const char* name, const char* rel, Belonging belonging) {
    graph.nodes.push_back({.name = name,
                           .count = belonging.count,
                           .attrs = {debian_attr(mean_features(belonging, *features))},
                           .splits = {}});
    types.add(std::move(belonging.edges), static_cast<int>(graph.nodes.size()) - 1, rel);
  };
  add("source", "built_from", belong(packages, [](const DebianPackage& p) { return Names{p.source}; }));
  add("maintainer", "maintained_by",
      belong(packages, [](const DebianPackage& p) { return Names{p.maintainer}; }));
  add("tag", "tagged", belong(packages, [](const DebianPackage& p) { return p.tags; }));
}

}  // namespace hopfeed
