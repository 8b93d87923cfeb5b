// See import_debian.h.
#include "partition_tool/import_debian.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/mapped_file.h"
#include "partition_tool/debian_packages.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/hashed_tfidf.h"
#include "partition_tool/labels.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kFewPackages = 1'000;  // fewer: apt has no package lists
constexpr std::size_t kMaxDumpBytes = std::size_t{1} << 32;

struct Edge {
  std::int32_t destination, source;
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// Index of a name in the sorted packages, or -1.
std::int32_t find_package(const std::vector<DebianPackage>& packages, std::string_view name) {
  const auto at = std::lower_bound(
      packages.begin(), packages.end(), name,
      [](const DebianPackage& package, std::string_view wanted) { return package.name < wanted; });
  return at != packages.end() && at->name == name ? static_cast<std::int32_t>(at - packages.begin()) : -1;
}

std::vector<Edge> relate(const std::vector<DebianPackage>& packages) {
  std::vector<Edge> edges;
  for (std::int32_t v = 0; v < std::ssize(packages); ++v) {
    for (std::string_view name : packages[v].related) {
      const std::int32_t u = find_package(packages, name);
      if (u < 0 || u == v) continue;
      edges.push_back({.destination = v, .source = u});
      edges.push_back({.destination = u, .source = v});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

/// Class numbers by package; fills the class names.
std::vector<std::int64_t> label_sections(const std::vector<DebianPackage>& packages,
                                         std::int64_t min_class_size, std::vector<std::string>& class_names) {
  std::map<std::string_view, std::int64_t> sizes;
  for (const DebianPackage& package : packages) ++sizes[package.section];
  std::map<std::string_view, std::int64_t> number;
  for (const auto& [section, size] : sizes) {
    if (section.empty() || size < min_class_size) continue;
    number[section] = std::ssize(class_names);
    class_names.emplace_back(section);
  }
  std::vector<std::int64_t> labels(packages.size(), -1);
  for (std::size_t v = 0; v < packages.size(); ++v) {
    if (const auto at = number.find(packages[v].section); at != number.end()) labels[v] = at->second;
  }
  return labels;
}

void split_by_name(const std::vector<DebianPackage>& packages, const std::vector<std::int64_t>& labels,
                   RawNodes& nodes) {
  for (std::size_t v = 0; v < packages.size(); ++v) {
    if (labels[v] < 0) continue;
    const std::uint64_t percent = XXH3_64bits(packages[v].name.data(), packages[v].name.size()) % 100;
    nodes.splits[percent < 60   ? "train"
                 : percent < 80 ? "valid"
                                : "test"]
        .push_back(static_cast<std::int64_t>(v));
  }
}

RawAttr describe(const std::vector<DebianPackage>& packages) {
  std::vector<std::string_view> summaries;
  for (const DebianPackage& package : packages) summaries.push_back(package.summary);
  const auto features = std::make_shared<const std::vector<float>>(hashed_tfidf(summaries, kDebianFeatures));
  return {.name = "x",
          .type = ElementType::kFloat32,
          .shape = {kDebianFeatures},
          .read_row = [features](std::int64_t node, std::span<std::byte> row) {
            std::memcpy(row.data(), features->data() + node * kDebianFeatures, row.size());
          }};
}

}  // namespace

RawGraph import_debian(const DebianImportOptions& options, const Progress& progress) {
  const bool ask_apt = options.dump.empty();
  const std::string origin = ask_apt ? "apt-cache dumpavail" : options.dump.string();
  progress({"Reading packages", "packages", 0, 0});
  const std::string text = ask_apt ? read_apt_dump() : read_text_file(options.dump, kMaxDumpBytes);
  const std::vector<DebianPackage> packages = parse_debian_packages(text, origin);
  progress({"Reading packages", "packages", packages.size(), packages.size()});
  if (packages.empty())
    throw Error(ask_apt ? ErrorCode::kUnsupported : ErrorCode::kInvalid,
                origin + " holds no packages" + (ask_apt ? "; run apt-get update first" : ""));
  if (ask_apt && std::ssize(packages) < kFewPackages) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("apt knows only {} packages: run apt-get update first, or use hopfeed-partition generate",
                    packages.size()));
  }
  RawGraph graph = graph_of_one_type("debian");
  graph.nodes[0].count = std::ssize(packages);
  {
    const std::vector<Edge> edges = relate(packages);
    std::vector<std::int32_t> source, destination;
    for (const Edge& edge : edges) {
      source.push_back(edge.source);
      destination.push_back(edge.destination);
    }
    graph.edges[0].csc = edges_to_csc(
        std::span<const std::int32_t>(source), std::span<const std::int32_t>(destination),
        {.sources = std::ssize(packages), .destinations = std::ssize(packages)},
        {.keep_edge_ids = options.keep_edge_ids, .threads = options.threads, .origin = origin}, progress);
  }
  graph.nodes[0].attrs.push_back(describe(packages));
  std::vector<std::int64_t> labels = label_sections(packages, options.min_class_size, graph.class_names);
  if (graph.class_names.empty())
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "{} has no section of {} packages or more, so nothing could be labelled; see --min-class-size",
            origin, options.min_class_size));
  split_by_name(packages, labels, graph.nodes[0]);
  set_labels(graph.nodes[0], std::move(labels));
  return graph;
}

}  // namespace hopfeed
