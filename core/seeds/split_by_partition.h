// Decides which seeds each trainer takes where trainers sit beside partitions: those of its own partition
// first, so that most rows of its batches are on its machine (DGL's node_split and edge_split). It takes the
// place of the deal (core/batch/deal.h), which goes by positions and shows in no byte: a trainer opens a
// stream over its own seeds, of a world of one.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/dataset/dataset.h"

namespace hopfeed {

struct SplitByPartition {
  std::int64_t rank = 0, world_size = 1;
  /// Every trainer gets as many seeds as any other, or one less: those whose partition has too few take what
  /// others have too many of. False: each takes all of its partition, shared evenly with the other trainers
  /// of it.
  bool force_even = true;
  /// Gives every trainer exactly as many: up to world_size - 1 seeds are left out, the last of those that
  /// nobody is beside. Then epochs have as many batches on every trainer, as those need who add up gradients
  /// after each. Only with force_even.
  bool same_count = false;
};

/// Returns which partition a trainer is beside: trainers are dealt to partitions in equal stretches of ranks,
/// as launchers number them, machine by machine.
int partition_of_rank(std::int64_t rank, std::int64_t world_size, int num_partitions);

/// Returns those of `nodes` (original ids) that one trainer gets, in their order within each partition. Over
/// all ranks each comes once. Throws kInvalid for a rank that is none, an id that is no node, and fewer nodes
/// than trainers.
std::vector<std::int64_t> node_split(const Dataset& dataset, int node_type,
                                     std::span<const std::int64_t> nodes, const SplitByPartition& split);
/// Returns the positions of one trainer's links among `pairs` [2P] (source, destination, ...; original ids);
/// a link belongs to its destination's partition, where its row is.
std::vector<std::int64_t> edge_split(const Dataset& dataset, int edge_type,
                                     std::span<const std::int64_t> pairs, const SplitByPartition& split);

}  // namespace hopfeed
