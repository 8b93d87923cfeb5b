// See import_debian.h.
#include "partition_tool/import_debian.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <map>
#include <memory>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "partition_tool/debian_packages.h"
#include "partition_tool/debian_types.h"
#include "partition_tool/hashed_tfidf.h"
#include "partition_tool/labels.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kFewPackages = 1'000;  // fewer: apt has no package lists
constexpr std::size_t kMaxDumpBytes = std::size_t{1} << 32;

/// Every relation between known packages, both ways, each pair once, no loops.
RawEdges relate(const std::vector<DebianPackage>& packages, const DebianEdgeOptions& options,
                const Progress& progress) {
  std::vector<DebianEdge> edges;
  for (std::int32_t v = 0; v < std::ssize(packages); ++v) {
    for (const DebianRelation& relation : packages[v].relations) {
      const std::int32_t u = find_package(packages, relation.name);
      if (u < 0 || u == v) continue;
      edges.push_back({.destination = v, .source = u});
      edges.push_back({.destination = u, .source = v});
    }
  }
  const std::int64_t count = std::ssize(packages);
  return debian_edges(std::move(edges), {.sources = count, .destinations = count}, options, progress);
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

DebianFeatures features_of(const std::vector<DebianPackage>& packages) {
  std::vector<std::string_view> summaries;
  for (const DebianPackage& package : packages) summaries.push_back(package.summary);
  return std::make_shared<const std::vector<float>>(hashed_tfidf(summaries, kDebianFeatures));
}

std::vector<DebianPackage> read_packages(std::string_view text, const std::string& origin, bool from_apt) {
  std::vector<DebianPackage> packages = parse_debian_packages(text, origin);
  if (packages.empty())
    throw Error(from_apt ? ErrorCode::kUnsupported : ErrorCode::kInvalid,
                origin + " holds no packages" + (from_apt ? "; run apt-get update first" : ""));
  if (from_apt && std::ssize(packages) < kFewPackages) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("apt knows only {} packages: run apt-get update first, or use hopfeed-partition generate",
                    packages.size()));
  }
  return packages;
}

/// The program, the dump, and of each package its features, names and relations; with types the sums that
/// features of other types are made of. Measured on a release of Debian: 165 and 256 MiB.
std::uint64_t debian_bytes(std::size_t dump, std::size_t packages, bool hetero) {
  return (std::uint64_t{20} << 20) + dump + packages * (kDebianFeatures * 4 + 450 + (hetero ? 1'500 : 0));
}

}  // namespace

RawGraph import_debian(const DebianImportOptions& options, const Progress& progress) {
  const bool ask_apt = options.dump.empty();
  const std::string origin = ask_apt ? "apt-cache dumpavail" : options.dump.string();
  progress({"Reading packages", "packages", 0, 0});
  const std::string text = ask_apt ? read_apt_dump() : read_text_file(options.dump, kMaxDumpBytes);
  const std::vector<DebianPackage> packages = read_packages(text, origin, ask_apt);
  progress({"Reading packages", "packages", packages.size(), packages.size()});
  want_memory(options.tell_memory, {.what = "importing " + origin,
                                    .knobs = "use a machine with more",
                                    .bytes = debian_bytes(text.size(), packages.size(), options.hetero)});
  const DebianEdgeOptions how{
      .keep_edge_ids = options.keep_edge_ids, .threads = options.threads, .origin = origin};
  const DebianFeatures features = features_of(packages);
  RawGraph graph = graph_of_one_type("debian");
  RawNodes& nodes = graph.nodes[0];
  nodes.count = std::ssize(packages);
  nodes.attrs.push_back(debian_attr(features));
  std::vector<std::int64_t> labels = label_sections(packages, options.min_class_size, graph.class_names);
  if (graph.class_names.empty())
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "{} has no section of {} packages or more, so nothing could be labelled; see --min-class-size",
            origin, options.min_class_size));
  split_by_name(packages, labels, nodes);
  set_labels(nodes, std::move(labels));
  if (options.hetero)
    make_debian_types(packages, features, how, progress, graph);
  else
    graph.edges[0] = relate(packages, how, progress);
  return graph;
}

}  // namespace hopfeed
