// A NodeSet has the seeds of a loader, and what belongs to each: a split of the dataset or what a user gives.
// The loader owns it; workers view the same bytes (pack).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/seeds/node_list.h"

namespace hopfeed {

/// Returns the number of the seeds' node type; an empty `name` is the first. Throws kNotFound for a type that
/// is not there, kInvalid for several ("paper,author"): a loader has seeds of one type.
int seed_node_type(const DatasetMeta& meta, const std::string& name);

struct NodeInput {
  std::string split = "train";  // the split, where neither ids nor a mask are given
  std::optional<std::vector<std::int64_t>> ids = std::nullopt;   // original ids, repeats allowed
  std::optional<std::vector<std::uint8_t>> mask = std::nullopt;  // [nodes] by original id; not 0: a seed
  std::vector<std::int64_t> times =
      {};  // [seeds] of each; empty: an attribute of the nodes, where times are asked for
  /// [seeds]: with weights an epoch draws as many seeds as there are, with replacement, in proportion to
  /// these (PyG's ImbalancedSampler); without them it shuffles the seeds.
  std::vector<double> weights = {};
};

class NodeSet {
 public:
  /// `dataset` must outlive the set. A split that lies in ranges at the partitions stays there; with times or
  /// weights of its seeds all of it is asked for. Throws kInvalid naming the seed, the length or the weight
  /// that cannot be, kNotFound for a split that is not there.
  NodeSet(const Dataset& dataset, int node_type, const NodeInput& input);
  /// Makes the set of seeds that are given whole (ids or a mask), where the dataset is not at hand: equal to
  /// the one made with it, with the same pack and errors. Throws kUnsupported besides, for what goes with a
  /// split, whose nodes only the dataset has.
  NodeSet(const DatasetMeta& meta, int node_type, const NodeInput& input);
  /// Views what pack() gave, or somebody who is not trusted; it must outlive the set. Throws kCorrupt naming
  /// the field. check() tells whether the ids are the dataset's.
  explicit NodeSet(std::span<const std::byte> packed);
  NodeSet(const NodeSet&) = delete;
  NodeSet& operator=(const NodeSet&) = delete;

  /// Returns whether it is more than a split of the dataset, which workers have to be told.
  bool given() const { return given_; }
  /// Throws kInvalid naming the first seed that is no node of the dataset.
  void check(const DatasetMeta& meta, int node_type) const;
  std::vector<std::byte> pack() const;
  struct ListOptions {
    int node_type = 0;
    bool shuffle = true;
  };
  /// Returns a list that views this set. Throws kInvalid for weights without a shuffle.
  NodeList list(const ListOptions& options) const&;
  NodeList list(const ListOptions& options) const&& = delete;  // of a set that is gone with the expression

 private:
  /// Takes the input; `split` is the nodes of input.split, where neither ids nor a mask are given.
  void take(const NodeTypeMeta& type, const NodeInput& input, std::span<const std::int64_t> split);

  std::vector<std::int64_t> own_ids_, split_ids_, own_times_;
  std::vector<AliasEntry> own_weights_;
  std::span<const std::int64_t> ids_, times_;
  std::span<const AliasEntry> weights_;
  std::optional<SplitInRanges> in_ranges_;  // in place of ids_
  bool named_by_node_ = false, given_ = false;
};

}  // namespace hopfeed
