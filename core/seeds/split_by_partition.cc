// See split_by_partition.h.
#include "core/seeds/split_by_partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/sampler/peer_ids.h"

namespace hopfeed {
namespace {

/// The first of `count` things that part `i` of `parts` has.
std::int64_t begin_of(std::int64_t i, std::int64_t count, std::int64_t parts) {
  return count / parts * i + std::min(i, count % parts);
}

/// Positions that one trainer takes, of things that lie in these partitions.
std::vector<std::int64_t> split_positions(std::span<const int> partitions, int num_partitions,
                                          const SplitByPartition& split) {
  const auto count = std::ssize(partitions);
  require_valid(
      split.world_size >= 1 && split.rank >= 0 && split.rank < split.world_size,
      fmt::format("rank {} of {} trainers; ranks are from 0 to one below", split.rank, split.world_size));
  require_valid(
      count >= split.world_size,
      fmt::format("{} seeds are shared by {} trainers; each needs one at least", count, split.world_size));
  // How many seeds a trainer gets, where they are evened out.
  const auto share_of = [&](std::int64_t r) {
    if (split.same_count) return count / split.world_size;
    return begin_of(r + 1, count, split.world_size) - begin_of(r, count, split.world_size);
  };
  std::vector<std::vector<std::int64_t>> of_partition(static_cast<std::size_t>(num_partitions));
  for (std::int64_t i = 0; i < count; ++i)
    of_partition[static_cast<std::size_t>(partitions[static_cast<std::size_t>(i)])].push_back(i);
  std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(split.world_size));
  std::vector<std::int64_t> left;  // what nobody beside it takes
  for (int p = 0; p < num_partitions; ++p) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t r = 0; r < split.world_size; ++r)
      if (partition_of_rank(r, split.world_size, num_partitions) == p) ranks.push_back(r);
    const std::vector<std::int64_t>& here = of_partition[static_cast<std::size_t>(p)];
    const auto parts = std::ssize(ranks);
    if (parts == 0) left.insert(left.end(), here.begin(), here.end());
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t begin = begin_of(i, std::ssize(here), parts),
                         end = begin_of(i + 1, std::ssize(here), parts);
      const std::int64_t r = ranks[static_cast<std::size_t>(i)];
      const std::int64_t most = share_of(r);
      const std::int64_t kept = split.force_even ? std::min(end - begin, most) : end - begin;
      taken[static_cast<std::size_t>(r)].assign(here.begin() + begin, here.begin() + begin + kept);
      left.insert(left.end(), here.begin() + begin + kept, here.begin() + end);
    }
  }
  // What is left goes to those that have too few, or, where nothing is evened out, to all in turn.
  std::size_t next = 0;
  for (std::int64_t r = 0; r < split.world_size; ++r) {
    std::vector<std::int64_t>& mine = taken[static_cast<std::size_t>(r)];
    const std::int64_t wanted = split.force_even
                                    ? share_of(r)
                                    : std::ssize(mine) + begin_of(r + 1, std::ssize(left), split.world_size) -
                                          begin_of(r, std::ssize(left), split.world_size);
    while (std::ssize(mine) < wanted) mine.push_back(left[next++]);
  }
  return taken[static_cast<std::size_t>(split.rank)];
}

std::vector<int> partitions_of(const Dataset& dataset, int node_type, std::span<const std::int64_t> nodes) {
  const std::vector<std::int64_t> ids = dataset_ids_of_all(dataset, node_type, nodes);
  std::vector<int> partitions;
  partitions.reserve(ids.size());
  const auto& offsets = dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  for (const std::int64_t id : ids) partitions.push_back(partition_of(offsets, id));
  return partitions;
}

}  // namespace

int partition_of_rank(std::int64_t rank, std::int64_t world_size, int num_partitions) {
  if (world_size < num_partitions) return static_cast<int>(rank);  // those of no trainer are shared out
  for (int p = 0; p < num_partitions; ++p)
    if (rank < begin_of(p + 1, world_size, num_partitions)) return p;
  return num_partitions - 1;
}

std::vector<std::int64_t> node_split(const Dataset& dataset, int node_type,
                                     std::span<const std::int64_t> nodes, const SplitByPartition& split) {
  std::vector<std::int64_t> mine =
      split_positions(partitions_of(dataset, node_type, nodes), dataset.meta().partitions, split);
  for (std::int64_t& position : mine) position = nodes[static_cast<std::size_t>(position)];
  return mine;
}

std::vector<std::int64_t> edge_split(const Dataset& dataset, int edge_type,
                                     std::span<const std::int64_t> pairs, const SplitByPartition& split) {
  std::vector<std::int64_t> destinations;
  for (std::size_t i = 1; i < pairs.size(); i += 2) destinations.push_back(pairs[i]);
  return split_positions(partitions_of(dataset, dataset.csc(edge_type).dst_type, destinations),
                         dataset.meta().partitions, split);
}

}  // namespace hopfeed
