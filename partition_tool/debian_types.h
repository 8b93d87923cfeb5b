// Makes the package graph of Debian with its types.
//
//   node type    what
//   package      as in the homogeneous import: order, x, y, splits
//   source       source packages
//   maintainer   addresses
//   tag          debtags
//
//   from         to           edge types
//   package      package      pre_depends, depends, recommends, suggests, enhances: from the package that
//                             says so
//   package      source       built_from
//   package      maintainer   maintained_by
//   package      tag          tagged
//
// Sources, maintainers and tags come in rising order of their names, and their x is the mean of their
// packages' x, scaled to length 1: no names, which would give sections away. Each edge type has its reverse,
// rev_...; each pair is there once, there are no loops, and edges are sorted by destination, then source.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "partition_tool/debian_packages.h"
#include "partition_tool/edges_to_csc.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

inline constexpr std::int64_t kDebianFeatures = 256;

/// DebianFeatures are rows of kDebianFeatures.
using DebianFeatures = std::shared_ptr<const std::vector<float>>;
/// Returns the attribute "x" of packages.
RawAttr debian_attr(const DebianFeatures& features);

struct DebianEdge {
  std::int32_t destination, source;
  friend auto operator<=>(const DebianEdge&, const DebianEdge&) = default;
};

using DebianEdgeOptions = EdgesToCscOptions;

/// Returns the edges sorted by destination, then source, each pair once.
RawEdges debian_edges(std::vector<DebianEdge> edges, const EdgeEnds& ends, const DebianEdgeOptions& options,
                      const Progress& progress);

/// Returns the index of a name in the sorted packages, or -1.
std::int32_t find_package(const std::vector<DebianPackage>& packages, std::string_view name);

/// `graph` has the packages as its only node type; it gets the names, the other node types and all edge
/// types.
void make_debian_types(const std::vector<DebianPackage>& packages, const DebianFeatures& features,
                       const DebianEdgeOptions& options, const Progress& progress, RawGraph& graph);

}  // namespace hopfeed
