// Checks the weights and times of edges before anything is written, and names them in errors.
#pragma once
#include <string>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Throws kInvalid naming the file and the attribute where a weight or a time of an edge type is none of its
/// attributes, is not one number, or has an element type that does not serve. Needs no edges, so that
/// importers can ask before they read any.
void check_weights_and_times(const RawGraph& graph);

/// Throws what check_weights_and_times() throws, and kUnsupported naming a node whose row is too long for a
/// weight or a time.
void check_edge_arrays(const RawGraph& graph);

/// Returns what errors say first: the edge type, where there are several.
inline std::string edge_type_prefix(const RawGraph& graph, const RawEdges& edges) {
  return graph.edges.size() > 1 ? "edge type " + graph.edge_name(edges) + ": " : "";
}
/// Returns "weights.npy: " where an attribute is read from a file.
template <class Attr>
std::string file_prefix(const Attr& attr) {
  return attr.origin.empty() ? "" : attr.origin + ": ";
}

}  // namespace hopfeed
