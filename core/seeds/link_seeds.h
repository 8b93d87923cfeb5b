// The links of a loader, and what belongs to each: a split of an edge type or what a user gives (owned by the
// loader; workers view the same bytes, pack); and their order in an epoch, a keyed shuffle evaluated per
// position.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_layout.h"
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

class LinkList {
 public:
  /// `pairs` [2P]: source and destination of each link, original ids; must outlive the list. Throws kInvalid
  /// for an empty list.
  LinkList(std::span<const std::int64_t> pairs, LinkListOptions options);
  /// A container that dies with the expression would leave the list a view of freed memory.
  template <std::ranges::range Pairs>
  requires(!std::ranges::borrowed_range<Pairs>) LinkList(Pairs&& temporary_pairs, LinkListOptions options)
  = delete;

  std::int64_t size() const { return static_cast<std::int64_t>(pairs_.size() / 2); }
  int edge_type() const { return options_.edge_type; }
  /// Source and destination of each link, in the original order.
  std::span<const std::int64_t> pairs() const { return pairs_; }
  const std::filesystem::path& file() const { return options_.file; }
  bool has_labels() const { return !options_.labels.empty(); }
  bool has_times() const { return !options_.times.empty(); }
  /// Of all labels; 0 where the list has none.
  std::int64_t smallest_label() const { return smallest_label_; }

  struct Positions {
    std::vector<std::int64_t> input_id;               // position in the original list
    std::vector<std::int64_t> sources, destinations;  // of the link there, original ids
    std::vector<std::int64_t> labels, times;          // of it; empty where the list has none
  };
  /// The links of one batch, into reused memory. Throws kInvalid where [first, first + count) leaves the
  /// list.
  void links(const BatchKey& key, Positions& out) const;

 private:
  std::span<const std::int64_t> pairs_;
  LinkListOptions options_;
  std::int64_t smallest_label_ = 0;
};

/// Throws where an end of a link of `pairs` [2P] is no node: kCorrupt naming `file`, or kInvalid where the
/// pairs are no file's.
void check_links(const Dataset& dataset, int edge_type, std::span<const std::int64_t> pairs,
                 const std::filesystem::path& file);

struct LinkInput {
  std::string split = "train";  // of the edge type, where no pairs are given
  std::optional<std::vector<std::int64_t>> pairs =
      std::nullopt;                                   // [2P] original ids: source, destination, source, ...
  std::vector<std::int64_t> labels = {}, times = {};  // [P] of the pairs, or none
};

class LinkSet {
 public:
  /// `dataset` must outlive the set. Throws kInvalid naming the link, the end or the length that cannot be,
  /// kNotFound for a split that is not there. The links of a split are checked where they are read
  /// (check_links).
  LinkSet(const Dataset& dataset, int edge_type, const LinkInput& input);
  /// Views what pack() gave, which must outlive the set. Throws kCorrupt.
  explicit LinkSet(std::span<const std::byte> packed);
  LinkSet(const LinkSet&) = delete;
  LinkSet& operator=(const LinkSet&) = delete;

  /// Whether it is more than a split of the dataset, so that workers have to be told.
  bool given() const { return given_; }
  std::vector<std::byte> pack() const;
  struct ListOptions {
    int edge_type = 0;
    bool shuffle = true;
  };
  /// Views this set.
  LinkList list(const ListOptions& options) const&;
  LinkList list(const ListOptions& options) const&& = delete;  // of a set that is gone with the expression

 private:
  std::vector<std::int64_t> own_pairs_, own_labels_, own_times_;
  std::span<const std::int64_t> pairs_, labels_, times_;
  std::filesystem::path file_;  // of the split's pairs
  bool given_ = false;
};

}  // namespace hopfeed
