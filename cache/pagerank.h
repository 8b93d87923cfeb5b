// Reverse PageRank from the training nodes (Min et al., "Graph Neural Network Training and Data Tiering", KDD
// 2022): a walker stands on a training node, goes to one of the node's in-neighbours, as sampling does, and
// with probability 1 - damping begins anew. How often it stands on a node says how hot the node is:
//
//   r_0(v) = s(v),   s(v) = 1 / |train| for training nodes, 0 for others
//   r_i(v) = (1 - damping) s(v) + damping (sum over out-edges v -> u of r(u) / in-degree(u) + lost s(v))
//
// where `lost` is what stands on nodes without in-neighbours. In-degrees are those of all edge types
// together. In float64, sums in the order of the rows: bit-identical for any number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "cache/hotness.h"

namespace hopfeed {

struct PagerankOptions {
  double damping = 0.85;
  int rounds = 20;  // 0.85^20 = 4%: what is further away than that is sampled by nobody
  int threads = 1;
  /// Told how many edges were read of how many, each round reading all; may throw to stop.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Rank of every node, in the graph's numbering: [N], they sum to 1.
std::vector<double> reverse_pagerank(const HotnessGraph& graph, const PagerankOptions& options);

/// Edges that leave each node, over all edge types: [N]. `progress` as above.
std::vector<double> out_degrees(const HotnessGraph& graph, int threads,
                                const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace hopfeed
