// Joins items that share users: from edges user -> item it makes an edge type item -> item between items that
// at least N users have in common.
//
// Counting follows Gustavson (Two Fast Algorithms for Sparse Matrices, TOMS 1978): for each item all items of
// its users are counted in an array. Items are numbered by falling number of users and each counts only those
// before it, so that pairs are counted once and most counters lie in the nearest cache. What lies in memory
// are the edges both ways and the pairs that are kept.
#pragma once
#include <cstdint>
#include <string>

#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct CoOccurrenceOptions {
  std::string edge_type;          // user -> item: "src__rel__dst" or "rel"
  std::string rel = "co_occurs";  // of the type that is made
  std::int64_t min_users = 3;     // in common
  std::int64_t max_user_degree =
      1000;                // users of more different items are left out: they tell least and cost most
  bool weighted = false;   // batches shall be drawn by the number of users in common
  bool all_edges = false;  // the edge type needs no edge split "train"
  int threads = 1;
};

struct CoOccurrence {
  RawGraph graph;          // reads from the dataset's maps
  std::int64_t users = 0;  // with an edge
  std::int64_t users_left_out = 0;
  std::int64_t edges_left_out = 0;  // of those
  std::int64_t pairs = 0;           // of items; each is an edge both ways
};

/// Adds the edge type, with the number of users in common as the int64 edge attribute "users". The edges
/// that count are those of the graph: links that were held out are not among them. Parallel edges count once.
/// Throws kInvalid where the edge type has no edge split "train" (test links that an import gave do not say
/// that no others will be held out), or where the name is taken; kNoSpace where the pairs do not fit into
/// memory.
CoOccurrence co_occurrence(const Dataset& dataset, const CoOccurrenceOptions& options,
                           const Progress& progress);

}  // namespace hopfeed
