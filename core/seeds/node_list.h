// A NodeList has the seed positions of an epoch: a list of original node ids and its keyed shuffle, or draws
// by weight, evaluated per position.
#pragma once
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_key.h"
#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// Spans must outlive the list; they are empty or have an entry per seed.
struct NodeListOptions {
  int node_type = 0;
  bool shuffle = true;
  std::span<const std::int64_t> times = {};
  /// Each position of an epoch draws a seed by this alias table (alias_table.h), with replacement, where
  /// others shuffle.
  std::span<const AliasEntry> weights = {};
  bool named_by_node = false;  // input_id is the seed's original id, as PyG has it for masks
};

/// A SplitInRanges is a split whose entries lie in ranges at the partitions (sharded ids): who wants the
/// nodes at some positions asks (core/sampler/peer_ids.h).
struct SplitInRanges {
  std::string name;
  std::int64_t size = 0;
};

class NodeList {
 public:
  /// `original_ids` must outlive the list (a split of a Dataset does). Throws kInvalid for an empty list.
  NodeList(std::span<const std::int64_t> original_ids, NodeListOptions options);
  /// Knows positions alone. Throws kInvalid for an empty list.
  NodeList(SplitInRanges split, NodeListOptions options);
  /// A container that dies with the expression would leave the list a view of freed memory.
  template <std::ranges::range Ids>
  requires(!std::ranges::borrowed_range<Ids>) NodeList(Ids&& temporary_ids, NodeListOptions options)
  = delete;

  std::int64_t size() const { return in_ranges() ? split_->size : static_cast<std::int64_t>(ids_.size()); }
  /// Returns whether seeds() leaves original_id empty, and the positions of split() are in input_id.
  bool in_ranges() const { return split_.has_value(); }
  const std::string& split() const { return split_->name; }
  int node_type() const { return options_.node_type; }
  bool shuffled() const { return options_.shuffle; }
  bool has_times() const { return !options_.times.empty(); }
  struct Positions {
    std::vector<std::int64_t> input_id;     // PyG's: position in the original list, or the seed's original id
    std::vector<std::int64_t> original_id;  // the seed there
    std::vector<std::int64_t> times;        // of it; empty where the list has none
  };
  /// Gives the seeds of one batch, into reused memory. Throws kInvalid where [first, first + count) leaves
  /// the list.
  void seeds(const BatchKey& key, Positions& out) const;

 private:
  void require_seeds() const;
  void draw(const BatchKey& key, std::span<std::int64_t> index) const;
  std::span<const std::int64_t> ids_;
  std::optional<SplitInRanges> split_;
  NodeListOptions options_;
};

}  // namespace hopfeed
