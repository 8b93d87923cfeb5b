// Makes small datasets of any node and edge types for tests: edges and attributes by original id, cut and
// ordered as the test says. They are written with DatasetWriter, so that what a test reads is what a program
// would read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hopfeed::testing {

struct TypedNodes {
  std::string name = "node";
  std::int64_t count = 0;
  std::vector<float> x;  // [count, x_width] by original id; attribute "x" where x_width > 0
  std::int64_t x_width = 0;
  std::vector<std::int64_t> y;     // [count]; attribute "y" where not empty
  std::vector<std::int64_t> time;  // [count]; attribute "time" where not empty
  std::int64_t num_classes = 0;
  std::map<std::string, std::vector<std::int64_t>> splits;  // original ids, in the order given
};

/// TypedLinks are an edge split: {source, destination} of each link, original ids; labels and times are
/// stored where not empty.
struct TypedLinks {
  std::vector<std::int64_t> pairs, labels, times;
};

struct TypedEdges {
  std::string src = "node", rel = "to", dst = "node";
  std::vector<std::int64_t> sources, destinations;  // edge e goes sources[e] -> destinations[e]; original ids
  std::vector<double> weight;      // [E]; attribute "weight" with alias tables where not empty
  std::vector<std::int64_t> time;  // [E]; attribute "time" where not empty
  /// Rows are stored in the order of `time`, of the edges or else of the source nodes, where there is one.
  bool in_order_of_time = true;
  std::string rev_of = {};  // "src__rel__dst" of the edge type that this one is the reverse of
  std::map<std::string, TypedLinks> splits = {};
};

struct TypedGraph {
  std::vector<TypedNodes> nodes;
  std::vector<TypedEdges> edges;
  int node_type(const std::string& name) const;
};

struct TypedCut {
  int partitions = 1;
  /// It has the partitions per node type; empty: all in partition 0, by original id.
  std::vector<std::vector<int>> partition_of;  // [type][original id]
  std::vector<std::vector<std::int64_t>>
      order;                  // [type] all original ids: inside a partition nodes keep this order
  bool edge_ids = true;       // store edge_ids.npy (positions in sources and destinations)
  bool by_id = false;         // store by_id.npy of each edge type
  bool halos = false;         // partitions have copies of the rows along the cut
  bool sharded_ids = false;   // each partition has a range of ids and splits, and its remote sources' ids
  bool wide_ids = false;      // int64 new_ids, indices and edge_ids where int32 would do
  bool alias_sources = true;  // alias tables as they are written since version 7; else as before
  std::size_t bounds_apart =
      3;  // every so many-th time is a bound: some codes have several times, as in large graphs
};

/// Replaces `folder` by the dataset.
void write_typed_dataset(const std::filesystem::path& folder, const TypedGraph& graph,
                         const TypedCut& cut = {});

/// Returns a cut that deals the nodes of each type at random to `partitions` and orders them at random inside
/// each.
TypedCut random_typed_cut(const TypedGraph& graph, int partitions, std::uint64_t seed);

struct RandomTypedOptions {
  std::int64_t node_types = 3, edge_types = 5;
  std::int64_t max_nodes = 120;  // of a type
  std::uint64_t seed = 1;
  /// Adds beside each edge type "rN" between two node types a "rev_rN" with its edges reversed, without
  /// weights and times.
  bool reverses = false;
  /// Adds behind all others a node type without nodes, with "x", and edge types without edges from it and to
  /// it.
  bool empty_type = false;
};
/// Makes random multigraphs between random types, with hubs and empty rows; weights (some zero, of some rows
/// all), times, features, labels; some node types without in-edges. Every node type that has nodes has a
/// split "train".
TypedGraph random_typed_graph(const RandomTypedOptions& options);

}  // namespace hopfeed::testing
