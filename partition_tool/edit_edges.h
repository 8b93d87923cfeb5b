// Makes edge types of a dataset anew: to-undirected, deduplicate, add-self-loops. Nodes, the other edge types
// and edge splits stay as they are; edges that stay keep their attributes and their order.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct EditOptions {
  std::vector<std::string> edge_types;  // "src__rel__dst" or "rel"; empty: all that the tool is for
  int threads = 1;
};

/// An EditedType says what became of one edge type.
struct EditedType {
  std::string edge_type;
  std::int64_t before = 0, after = 0;  // edges
};

struct EditedGraph {
  RawGraph graph;  // reads from the dataset's maps
  std::vector<EditedType> types;
};

/// Gives edge types between nodes of one type the reverse of each edge behind their own, each pair once (the
/// first stays, with its attributes); others get a type rev_<rel> beside them, in the order of the edge ids,
/// with the same attributes and ids. Types that have a reverse are left as they are. Throws kInvalid where a
/// name is taken, and where an edge's reverse is a held-out link: it would be an edge again.
EditedGraph to_undirected(const Dataset& dataset, const EditOptions& options, const Progress& progress);

/// Keeps the first of edges with the same ends, in the imported order.
EditedGraph deduplicate(const Dataset& dataset, const EditOptions& options, const Progress& progress);

struct SelfLoopOptions : EditOptions {
  std::map<std::string, std::string> fill;  // edge attribute -> the number that it has on new edges
};

/// Gives nodes without an edge to themselves one, behind their other in-edges. Throws kInvalid for edge types
/// between two node types that are named, where a loop is a held-out link, and for an attribute that `fill`
/// says nothing of.
EditedGraph add_self_loops(const Dataset& dataset, const SelfLoopOptions& options, const Progress& progress);

}  // namespace hopfeed
