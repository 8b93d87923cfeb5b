// RemoteRanks says how hot rows of other partitions are for one partition, their reader: what a machine with
// one partition keeps of the others (docs/cache.md). It is the reader's own ranking, as its own training
// nodes will read the rows, not their owners': rows along the cut are hot for it, the owner's hottest mostly
// are not. SALIENT++ (MLSys 2023) ranks remote rows so.
//
//   RemoteRanks ranks(dataset, reader);
//   RemoteRanksView view = ranks.view(node_type);   // plain, for as long as `ranks` lives
//   view.rank(row)                                  // 0 the hottest; a static cache of k rows has ranks < k
//   view.heat(row), view.heats(rows)                // 0 .. 255, for make_dynamic_cache
//
// The ranks come from the dataset's ranked lists (part-0000/remote_rows), and what is held is those: 10 bytes
// a ranked row, whatever the graph. Where it has none (datasets of earlier releases), a row's rank is its
// place in its owner's order: the hottest of every partition first, and 4 bytes for each node.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cache/cached_attrs.h"
#include "cache/row_heats.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// A RankOfRow is one in the bucket of ids that share all but their low bits.
struct RankOfRow {
  std::uint32_t low = 0, rank = 0;
};

class RemoteRanksView {
 public:
  /// The reader's own rows have this rank, and those that its ranked list leaves out.
  static constexpr std::uint32_t kUnranked = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint8_t kColdest = std::numeric_limits<std::uint8_t>::max();

  /// Returns the rank of a row by dataset id: 0 the hottest, each number below ranked() once.
  std::uint32_t rank(std::int64_t row) const {
    if (!all_.empty()) return all_[static_cast<std::size_t>(row)];
    const auto b = static_cast<std::size_t>(row >> shift_);
    const auto low = static_cast<std::uint32_t>(row & ((std::int64_t{1} << shift_) - 1));
    const RankOfRow *begin = rows_.data() + buckets_[b], *const end = rows_.data() + buckets_[b + 1];
    for (std::ptrdiff_t count = end - begin; count > 0;) {
      const std::ptrdiff_t half = count / 2;
      const bool behind = begin[half].low < low;
      begin = behind ? begin + half + 1 : begin;
      count = behind ? count - half - 1 : half;
    }
    return begin != end && begin->low == low ? begin->rank : kUnranked;
  }
  std::int64_t ranked() const { return ranked_; }
  /// Returns the class of a row: ranked rows are in 256 classes of about the same size; kColdest for all
  /// others.
  std::uint8_t heat(std::int64_t row) const {
    const std::uint32_t at = rank(row);
    if (at == kUnranked) return kColdest;
    return static_cast<std::uint8_t>(static_cast<std::uint64_t>(at) * 256 /
                                     static_cast<std::uint64_t>(ranked_));
  }
  /// Returns heat() of all `rows` rows of the type, as they are stored.
  RowHeats heats(std::int64_t rows) const;

 private:
  friend class RemoteRanks;
  std::span<const std::uint32_t> all_;      // [N] by dataset id; empty: the list below
  std::span<const RankOfRow> rows_;         // [ranked] by rising id
  std::span<const std::uint32_t> buckets_;  // [((N - 1) >> shift) + 2] how many rows come before each
  int shift_ = 0;
  std::int64_t ranked_ = 0;
};

class RemoteRanks {
 public:
  /// Reads the ranks. Throws kInvalid where there is no partition `reader`, kCorrupt naming the file where a
  /// list is damaged, kUnsupported for lists of 2^32 rows or more.
  RemoteRanks(const Dataset& dataset, int reader);
  RemoteRanksView view(int node_type) const {
    const OfType& type = types_[static_cast<std::size_t>(node_type)];
    RemoteRanksView view;
    view.all_ = type.all, view.rows_ = type.rows, view.buckets_ = type.buckets;
    view.shift_ = type.shift, view.ranked_ = type.ranked;
    return view;
  }
  /// Returns whether the dataset stores a list of the reader's for the type; else ranks are the owners'
  /// order.
  bool stored(int node_type) const { return types_[static_cast<std::size_t>(node_type)].stored; }

 private:
  struct OfType {  // the view's arrays
    std::vector<std::uint32_t> all;
    std::vector<RankOfRow> rows;
    std::vector<std::uint32_t> buckets;
    int shift = 0;
    std::int64_t ranked = 0;
    bool stored = false;
  };
  static void take_stored(const Dataset& dataset, int node_type, int reader, OfType& type);
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
