// Links to predict: training, validation and test edges of an edge type, as PyG's RandomLinkSplit makes them.
// Validation and test edges leave the graph, and so does every edge that leads back the same way: what is
// held out cannot be reached in training.
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
#include <optional>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// A number of links, or a share of all.
struct LinkShare {
  std::optional<double> ratio;  // [0, 1)
  std::int64_t count = 0;       // where there is no ratio
  /// "0.1" is a ratio, "1000" a number. Throws kInvalid naming the option.
  static LinkShare parse(const std::string& text, const char* option);
  /// How many of `all` links that is, rounded down.
  std::int64_t of(std::int64_t all) const;
};

enum class SplitBy { kRandom, kTime };

struct LinkSplitOptions {
  std::vector<std::string> edge_types;  // "src__rel__dst" or "rel"; empty: the only one that is no reverse
  std::vector<std::string> rev_edge_types;  // one for each, or "none"; empty: those that the dataset knows
  LinkShare num_val{.ratio = 0.1}, num_test{.ratio = 0.2};
  LinkShare disjoint_train;  // of the training links: they leave the graph as well
  SplitBy by = SplitBy::kRandom;
  std::string time;  // int64 edge attribute; empty: the only one that rows are ordered by, or "time"
  bool is_undirected = false;  // each edge is there both ways, and one link stands for both
  bool add_negative_train_samples = false;
  double neg_sampling_ratio = 1;  // of negatives to positives in valid and test (and train, where asked for)
  std::uint64_t seed = 0;
  int threads = 1;
};

/// What became of one edge type.
struct SplitType {
  std::string edge_type, reverse;               // reverse: empty where it has none
  std::int64_t edges = 0;                       // before
  std::int64_t message = 0;                     // that stay in the graph
  std::int64_t train = 0, valid = 0, test = 0;  // links without negatives
  std::int64_t negatives = 0;                   // of all splits
  std::int64_t reverse_removed = 0;             // edges of the reverse type
};

struct SplitGraph {
  RawGraph graph;  // reads from the dataset's maps
  std::vector<SplitType> types;
};

/// Throws kInvalid for what contradicts itself or leaves nothing to train on, for edges that are undirected
/// where they shall not be or the other way about, and for an edge type that leads back and is not known as
/// the reverse: it would give away what is held out.
SplitGraph split_links(const Dataset& dataset, const LinkSplitOptions& options, const Progress& progress);

}  // namespace hopfeed
