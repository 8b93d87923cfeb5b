// A LinkList has the link positions of an epoch: a list of pairs of original node ids and its keyed shuffle,
// evaluated per position.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_key.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// Spans must outlive the list; labels and times are empty or have an entry per link.
struct LinkListOptions {
  int edge_type = 0;
  bool shuffle = true;
  std::span<const std::int64_t> labels = {};
  std::span<const std::int64_t> times = {};
  std::filesystem::path file = {};  // of the pairs, where they are a file's; named in errors
};

/// LinksInRanges are an edge split whose entries lie in ranges at the partitions (SplitInRanges).
struct LinksInRanges {
  std::string name;
  std::int64_t size = 0;
  bool has_labels = false, has_times = false;
  std::int64_t smallest_label = 0;
};

class LinkList {
 public:
  /// `pairs` [2P] are source and destination of each link, original ids; they must outlive the list. Throws
  /// kInvalid for an empty list.
  LinkList(std::span<const std::int64_t> pairs, LinkListOptions options);
  /// Knows positions alone. Throws kInvalid for an empty list.
  LinkList(LinksInRanges split, LinkListOptions options);
  /// A container that dies with the expression would leave the list a view of freed memory.
  template <std::ranges::range Pairs>
  requires(!std::ranges::borrowed_range<Pairs>) LinkList(Pairs&& temporary_pairs, LinkListOptions options)
  = delete;

  std::int64_t size() const {
    return in_ranges() ? split_->size : static_cast<std::int64_t>(pairs_.size() / 2);
  }
  /// Returns whether links() gives input_id alone, the positions of split(), and pairs() are none.
  bool in_ranges() const { return split_.has_value(); }
  const std::string& split() const { return split_->name; }
  int edge_type() const { return options_.edge_type; }
  /// Returns source and destination of each link, in the original order.
  std::span<const std::int64_t> pairs() const { return pairs_; }
  const std::filesystem::path& file() const { return options_.file; }
  bool has_labels() const { return in_ranges() ? split_->has_labels : !options_.labels.empty(); }
  bool has_times() const { return in_ranges() ? split_->has_times : !options_.times.empty(); }
  /// Returns the smallest of all labels; 0 where the list has none.
  std::int64_t smallest_label() const { return smallest_label_; }

  struct Positions {
    std::vector<std::int64_t> input_id;               // position in the original list
    std::vector<std::int64_t> sources, destinations;  // of the link there, original ids
    std::vector<std::int64_t> labels, times;          // of it; empty where the list has none
  };
  /// Gives the links of one batch, into reused memory. Throws kInvalid where [first, first + count) leaves
  /// the list.
  void links(const BatchKey& key, Positions& out) const;

 private:
  void require_links() const;
  std::span<const std::int64_t> pairs_;
  std::optional<LinksInRanges> split_;
  LinkListOptions options_;
  std::int64_t smallest_label_ = 0;
};

/// Throws where an end of a link of `pairs` [2P] is no node: kCorrupt naming `file`, or kInvalid where the
/// pairs are no file's.
void check_links(const DatasetMeta& meta, int edge_type, std::span<const std::int64_t> pairs,
                 const std::filesystem::path& file);
inline void check_links(const Dataset& dataset, int edge_type, std::span<const std::int64_t> pairs,
                        const std::filesystem::path& file) {
  check_links(dataset.meta(), edge_type, pairs, file);
}

}  // namespace hopfeed
