// Makes up a graph of any size with what real ones have: few nodes with very many neighbours, classes that
// keep to themselves, features that say something about the class. Every number is a pure function of the
// seed and decided on integers, so a graph is the same on every machine and with any number of threads.
//
//   rank       nodes are dealt at random to ranks 0 .. N - 1; the class is rank mod C
//   in-degree  falls with rank as y^(-1/2) - 4/5 on (0, 1]: a power law of exponent 3, cut off at about 210
//              times the mean, down to a sixth of it; the median is half of the mean, as in ogbn-products
//   sources    with probability `homophily` from the destination's class, else from all nodes; low ranks are
//              preferred with density rank^(-4/5) (out-degrees: a power law of exponent 9/4), cut off at
//              N / 32768; parallel edges and loops occur
//   features   a random corner of a cube per class, plus noise: alone they tell 47 classes apart about half
//              of the time
//   order      edges come sorted by destination
//
// With the counts of ogbn-products (2,449,029 nodes, 123,718,280 edges) a batch of 1024 seeds at fanouts 15,
// 10, 5 has what a batch of the real graph has: about 650,000 edges and 380,000 nodes.
#pragma once
#include "partition_tool/graph_memory.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// It grows whenever the same options make another graph: it is part of the name of what is kept between
/// runs.
inline constexpr int kGeneratorVersion = 2;

struct GenerateOptions {
  std::int64_t num_nodes = 0;
  std::int64_t num_edges = 0;
  std::int64_t num_features = 0;  // 0: no attribute "x"
  std::int64_t num_classes = 2;
  std::uint64_t seed = 0;
  double homophily = 0.6;        // [0, 1]
  double train_fraction = 0.08;  // the rest of the three is the split "test"
  double valid_fraction = 0.02;
  bool keep_edge_ids = true;
  int threads = 1;
  TellMemory tell_memory = {};  // before it is taken
};

/// Returns the bytes of memory at the least that a dataset of this graph takes to make: by the nodes, and by
/// the edges only of the longest row. The options must be in range.
std::uint64_t generate_bytes(const GenerateOptions& options);

/// Makes the graph, whose rows and features are made whenever they are read. Throws kInvalid naming the
/// option that is out of range, kNoSpace where generate_bytes() are not to be had.
RawGraph generate_graph(const GenerateOptions& options, const Progress& progress);

}  // namespace hopfeed
