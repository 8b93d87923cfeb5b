// Makes small homogeneous datasets for tests: COO edges and features by original id, cut and ordered as the
// test says. They are written with DatasetWriter, so that what a test reads is what a program would read. The
// node type is "node", the edge type node__to__node.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/element_type.h"

namespace hopfeed::testing {

struct TinyGraph {
  std::int64_t num_nodes = 0;
  std::vector<std::int64_t> src, dst;  // edge e goes src[e] -> dst[e]; original ids, in the imported order
  std::vector<float> x;                // [num_nodes, x_width] by original id; attribute "x" where x_width > 0
  std::int64_t x_width = 0;
  ElementType x_type = ElementType::kFloat32;  // or a type with a scale, that x is stored as
  std::vector<std::int64_t> y;                 // [num_nodes] by original id; attribute "y" where not empty
  std::int64_t num_classes = 0;
  std::map<std::string, std::vector<std::int64_t>> splits;  // original ids, in the order given
};

struct TinyCut {
  int partitions = 1;
  std::vector<int> partition_of;  // [num_nodes] by original id; empty: all in partition 0
  std::vector<std::int64_t>
      order;              // all original ids: inside a partition nodes keep this order; empty: by original id
  bool edge_ids = true;   // store edge_ids.npy (positions in src and dst)
  bool wide_ids = false;  // int64 new_ids, indices and edge_ids where int32 would do
  bool halos = false;     // partitions have copies of the rows along the cut
};

/// Replaces `folder` by the dataset.
void write_tiny_dataset(const std::filesystem::path& folder, const TinyGraph& graph, const TinyCut& cut = {});

struct RandomGraphOptions {
  std::int64_t num_nodes = 200;
  std::int64_t num_edges = 1'500;
  std::int64_t x_width = 5;
  std::int64_t num_train =
      120;  // split "train": that many nodes in a shuffled order; the rest is split "valid"
  std::uint64_t seed = 1;
};
/// Returns a random multigraph with a few hubs, nodes without in-edges, self-loops, features, labels of 4
/// classes and splits.
TinyGraph random_graph(const RandomGraphOptions& options);

/// Returns the ring of n nodes (pyg-lib's cycle graph): in-neighbours of i are i - 1 and i + 1, in that
/// order; split "train": all.
TinyGraph ring_graph(std::int64_t num_nodes);
/// Returns the ring of 6 with three features, labels of three classes (one unknown), and splits "train" (4,
/// 1, 0) and "valid" (2, 5).
TinyGraph labelled_ring();

/// Returns the graph with the values that its x is read as, in float32: where x has a scale, these differ
/// from those it was given.
TinyGraph in_float32(TinyGraph graph);

/// Returns a cut that deals the nodes at random to `partitions` and orders them at random inside each.
TinyCut random_cut(const TinyGraph& graph, int partitions, std::uint64_t seed);

/// A TempFolder is a folder of its own under the system's temporary folder, removed with all that is in it at
/// the end of the scope.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace hopfeed::testing
