// FreePairs are the pairs of nodes that are no edge, counted and numbered, for graphs so full that draws at
// random find none.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// They go by destination, inside a destination by source. Each row is read once; 8 bytes a destination stay.
class FreePairs {
 public:
  struct Options {
    std::int64_t num_sources = 0;
    bool square = false;  // both ends are of one node type: no pair is of a node with itself
    int threads = 1;
  };
  /// `taken` are {source, destination} that are not free though no edge; sorted. `csc` and `taken` must
  /// outlive this.
  FreePairs(const Csc& csc, const std::vector<std::pair<std::int64_t, std::int64_t>>& taken,
            const Options& options);

  std::int64_t count() const { return before_.back(); }
  /// Returns {source, destination} of a free pair, by its number from 0.
  std::pair<std::int64_t, std::int64_t> pair(std::int64_t number) const;

 private:
  /// Returns the sources that a destination has no free pair with, ascending, each once.
  std::vector<std::int64_t> blocked(std::int64_t destination) const;

  const Csc& csc_;
  const Options options_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;  // {destination, source}, sorted
  std::vector<std::int64_t>
      before_;  // free pairs of the destinations before each, and of all behind the last
};

}  // namespace hopfeed
