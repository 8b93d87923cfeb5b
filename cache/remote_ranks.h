// RemoteRanks says how hot rows of other partitions are for one partition, their reader: what a machine with
// one partition keeps of the others (docs/cache.md). It is the reader's own ranking, as its own training
// nodes will read the rows, not their owners': rows along the cut are hot for it, the owner's hottest mostly
// are not. SALIENT++ (MLSys 2023) ranks remote rows so.
//
//   RemoteRanks ranks(dataset, reader);
//   RemoteRanksView view = ranks.view(node_type);   // plain, for as long as `ranks` lives
//   view.rank(row)                                  // 0 the hottest; a static cache of k rows has ranks < k
//   view.heat(row)                                  // 0 .. 255, for make_dynamic_cache
//
// The ranks come from the dataset's ranked lists (part-0000/remote_rows). Where it has none (datasets of
// earlier releases), a row's rank is its place in its owner's order: the hottest of every partition first.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cache/cached_attrs.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

class RemoteRanksView {
 public:
  /// The reader's own rows have this rank, and those that its ranked list leaves out.
  static constexpr std::uint32_t kUnranked = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint8_t kColdest = std::numeric_limits<std::uint8_t>::max();

  RemoteRanksView(std::span<const std::uint32_t> ranks, std::int64_t ranked)
      : ranks_(ranks), ranked_(ranked) {}
  /// Returns the rank of a row by dataset id: 0 the hottest, each number below ranked() once.
  std::uint32_t rank(std::int64_t row) const { return ranks_[static_cast<std::size_t>(row)]; }
  std::int64_t ranked() const { return ranked_; }
  /// Returns the class of a row: ranked rows are in 256 classes of about the same size; kColdest for all
  /// others.
  std::uint8_t heat(std::int64_t row) const {
    const std::uint32_t at = rank(row);
    if (at == kUnranked) return kColdest;
    return static_cast<std::uint8_t>(static_cast<std::uint64_t>(at) * 256 /
                                     static_cast<std::uint64_t>(ranked_));
  }

 private:
  std::span<const std::uint32_t> ranks_;  // [N] by dataset id
  std::int64_t ranked_;
};

class RemoteRanks {
 public:
  /// Reads the ranks. Throws kInvalid where there is no partition `reader`, kCorrupt naming the file where a
  /// list is damaged, kUnsupported for lists of 2^32 rows or more.
  RemoteRanks(const Dataset& dataset, int reader);
  RemoteRanksView view(int node_type) const {
    const OfType& type = types_[static_cast<std::size_t>(node_type)];
    return {type.ranks, type.ranked};
  }
  /// Returns whether the dataset stores a list of the reader's for the type; else ranks are the owners'
  /// order.
  bool stored(int node_type) const { return types_[static_cast<std::size_t>(node_type)].stored; }

 private:
  struct OfType {
    std::vector<std::uint32_t> ranks;  // [N]
    std::int64_t ranked = 0;
    bool stored = false;
  };
  std::vector<OfType> types_;
};

/// Throws kInvalid, naming the option, unless `partition` is one of the dataset's.
void require_partition(const Dataset& dataset, std::int64_t partition, const char* option);

/// Returns all rows of other partitions than `reader`, the hottest of every partition first: by how far
/// behind they stand in their owners' order. Per node type, dataset ids.
std::vector<std::int64_t> owners_order(std::span<const std::int64_t> partition_offsets, int reader);

/// Returns the attributes of cached_attrs() as the reader sees them: rows of nodes by its own ranking. Those
/// of edges keep the order of their partitions, which is that of the nodes that they lead to.
std::vector<CachedAttr> reader_attrs(const Dataset& dataset, std::vector<CachedAttr> attrs, int reader);

}  // namespace hopfeed
