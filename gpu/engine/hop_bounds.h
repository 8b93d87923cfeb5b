// HopBounds are what no batch of so many seeds exceeds, as far as the host can say without counting: by these
// an engine (hop_engine_on.h) takes memory and launches kernels. Rows may be damaged, so that an edge type's
// number of edges bounds nothing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/engine/hop_engine.h"

namespace hopfeed::gpu {

class HopBounds {
 public:
  static constexpr std::uint64_t kMany = std::uint64_t{1} << 60;  // sums saturate here

  /// The plan must outlive this.
  explicit HopBounds(const EnginePlan& plan) : plan_(plan) {}
  void begin(std::uint64_t num_seeds) { num_seeds_ = num_seeds; }

  /// Returns the ids that a type can have in a batch.
  std::uint64_t all_nodes(std::size_t type) const {
    const auto nodes = static_cast<std::uint64_t>(plan_.num_nodes[type]);
    if (!plan_.trees || nodes == 0) return nodes;
    return num_seeds_ > kMany / nodes ? kMany : nodes * num_seeds_;
  }

  /// Returns what so many rows of an edge type give in a hop; kMany where it is to be counted.
  std::uint64_t edges(std::uint64_t rows, std::size_t edge_type, int hop) const {
    const std::int64_t fanout = plan_.edge_types[edge_type].fanouts[static_cast<std::size_t>(hop)];
    if (rows == 0) return 0;
    if (fanout < 0) return kMany;
    return std::min(kMany, rows * static_cast<std::uint64_t>(fanout));
  }

  /// Returns the edges of all edge types at most, from such frontiers of their destinations' types.
  std::uint64_t edges_of_hop(const std::vector<std::uint64_t>& frontiers, int hop) const {
    std::uint64_t sum = 0;
    for (std::size_t e = 0; e < plan_.edge_types.size(); ++e)
      sum = std::min(kMany, sum + edges(frontiers[destinations(e)], e, hop));
    return sum;
  }

  /// Returns the nodes of each type, from so many seeds of it, behind all hops that come before one with more
  /// edges than are left to do without counting.
  std::vector<std::uint64_t> nodes(std::vector<std::uint64_t> frontiers, std::uint64_t left) const {
    std::vector<std::uint64_t> most = frontiers;
    for (int hop = 0; hop < plan_.hops; ++hop) {
      const std::uint64_t edges_of_all = edges_of_hop(frontiers, hop);
      if (edges_of_all > left) break;
      left -= edges_of_all;
      std::vector<std::uint64_t> next(frontiers.size(), 0);
      for (std::size_t e = 0; e < plan_.edge_types.size(); ++e) {
        const auto src = static_cast<std::size_t>(plan_.edge_types[e].src_type);
        next[src] = std::min(all_nodes(src), next[src] + edges(frontiers[destinations(e)], e, hop));
      }
      for (std::size_t t = 0; t < most.size(); ++t) most[t] = std::min(all_nodes(t), most[t] + next[t]);
      frontiers = next;
    }
    return most;
  }

 private:
  std::size_t destinations(std::size_t edge_type) const {
    return static_cast<std::size_t>(plan_.edge_types[edge_type].dst_type);
  }

  const EnginePlan& plan_;
  std::uint64_t num_seeds_ = 0;
};

}  // namespace hopfeed::gpu
