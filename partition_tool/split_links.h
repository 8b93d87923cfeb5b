// Splits off links to predict: training, validation and test edges of an edge type, as PyG's RandomLinkSplit
// does. Validation and test edges leave the graph, and so does every edge that leads back the same way: what
// is held out cannot be reached in training.
//
//   at random   by pairs of nodes: all parallel edges of a pair go together, so that no copy of it stays.
//               Numbers of pairs are exact. A pair's number is its place among the pairs sorted by
//               (destination, source), original ids; those whose keyed random words are the smallest are held
//               out. So the split is the same for any cut of the dataset and any number of threads.
//   by time     the latest edges are test, those before them validation; edges of one time go together, so
//               there are at most as many as asked for. A pair may be in several: it is another event.
//
// Links come in the order of (destination, imported order). Negatives follow the positives, drawn evenly from
// the pairs that are no edge of the type, whatever became of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/link_split_options.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// A SplitType says what became of one edge type.
struct SplitType {
  std::string edge_type, reverse;               // reverse: empty where it has none
  std::int64_t edges = 0;                       // edges before the split
  std::int64_t message = 0;                     // edges that stay in the graph
  std::int64_t train = 0, valid = 0, test = 0;  // links without negatives
  std::int64_t negatives = 0;                   // of all splits
  std::int64_t reverse_removed = 0;             // edges of the reverse type
};

struct SplitGraph {
  RawGraph graph;  // reads from the dataset's maps
  std::vector<SplitType> types;
};

/// Splits the links. Throws kInvalid for what contradicts itself or leaves nothing to train on, for edges
/// that are undirected where they shall not be or the other way about, and for an edge type that leads back
/// and is not known as the reverse: it would give away what is held out.
SplitGraph split_links(const Dataset& dataset, const LinkSplitOptions& options, const Progress& progress);

}  // namespace hopfeed
