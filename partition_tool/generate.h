// A made-up graph of any size with what real ones have: few nodes with very many neighbours, classes that
// keep to themselves, features that say something about the class. Every number is a pure function of the
// seed and decided on integers, so a graph is the same on every machine and with any number of threads.
//
//   rank       nodes are dealt at random to ranks 0 .. N - 1; the class is rank mod C
//   in-degree  falls as rank^(-1/2) (a power law of exponent 3, cut off at about 250 times the mean), down to 0
//   sources    with probability `homophily` from the destination's class, else from all nodes; low ranks are preferred
//              with density rank^(-1/2); parallel edges and loops occur
//   features   a random corner of a cube per class, plus noise: alone they tell 47 classes apart about half of the time
//   order      edges come sorted by destination
#pragma once
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

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
};

/// Throws kInvalid naming the option that is out of range.
RawGraph generate_graph(const GenerateOptions& options, const Progress& progress);

}  // namespace hopfeed
