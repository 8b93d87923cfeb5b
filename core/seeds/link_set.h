// A LinkSet has the links of a loader, and what belongs to each: a split of an edge type or what a user
// gives. The loader owns it; workers view the same bytes (pack).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/seeds/link_list.h"

namespace hopfeed {

struct LinkInput {
  std::string split = "train";  // of the edge type, where no pairs are given
  std::optional<std::vector<std::int64_t>> pairs =
      std::nullopt;                                   // [2P] original ids: source, destination, source, ...
  std::vector<std::int64_t> labels = {}, times = {};  // [P] of the pairs, or none
};

class LinkSet {
 public:
  /// `dataset` must outlive the set. A split that lies in ranges at the partitions stays there; with labels
  /// or times given beside it all of it is asked for. Throws kInvalid naming the link, the end or the length
  /// that cannot be, kNotFound for a split that is not there. The links of a split are checked where they are
  /// read (check_links).
  LinkSet(const Dataset& dataset, int edge_type, const LinkInput& input);
  /// Makes the set of pairs that are given, where the dataset is not at hand: equal to the one made with it,
  /// with the same pack and errors. Throws kUnsupported besides, for what goes with a split, whose links only
  /// the dataset has.
  LinkSet(const DatasetMeta& meta, int edge_type, const LinkInput& input);
  /// Views what pack() gave, or somebody who is not trusted; it must outlive the set. Throws kCorrupt naming
  /// the field. check() tells whether the ids are the dataset's.
  explicit LinkSet(std::span<const std::byte> packed);
  LinkSet(const LinkSet&) = delete;
  LinkSet& operator=(const LinkSet&) = delete;

  /// Returns whether it is more than a split of the dataset, which workers have to be told.
  bool given() const { return given_; }
  /// Throws kInvalid naming the first end that is no node of the dataset.
  void check(const DatasetMeta& meta, int edge_type) const;
  std::vector<std::byte> pack() const;
  struct ListOptions {
    int edge_type = 0;
    bool shuffle = true;
  };
  /// Returns a list that views this set.
  LinkList list(const ListOptions& options) const&;
  LinkList list(const ListOptions& options) const&& = delete;  // of a set that is gone with the expression

 private:
  void take_ranges(const Dataset& dataset, int edge_type, const std::string& split);
  void take_pairs(const DatasetMeta& meta, int edge_type, const LinkInput& input);
  void take_labels_and_times(const LinkInput& input);

  std::vector<std::int64_t> own_pairs_, own_labels_, own_times_;
  std::span<const std::int64_t> pairs_, labels_, times_;
  std::optional<LinksInRanges> in_ranges_;  // in place of the pairs
  std::filesystem::path file_;              // of the split's pairs
  bool given_ = false;
};

}  // namespace hopfeed
