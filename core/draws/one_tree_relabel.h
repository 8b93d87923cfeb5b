// OneTreeRelabel gives local ids in disjoint batches whose trees come in turn: seeds in their order, and each
// hop's inserts by rising tree, which is what one edge type gives. So one tree at a time is in the table,
// which stays in the nearest cache however large the batch; where a tree comes up again, a hop later, its
// nodes are put back. They lie in stretches of the local ids, one of each hop before, and a place in each of
// these moves on with the trees: all that is read again is read front to back.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/limits.h"
#include "core/base/scratch.h"
#include "core/draws/relabel_table.h"

namespace hopfeed {

/// It has the contract of the tables in relabel_table.h. Ids are tree << node_bits | node.
class OneTreeRelabel {
 public:
  static constexpr bool kTrees = true;
  explicit OneTreeRelabel(int node_bits) : node_bits_(node_bits) {}

  void begin_batch(LocalNodes& nodes) {
    nodes.count = 0;
    num_stretches_ = 0;
    tree_ = kNoTree;
    tree_begin_ = loaded_ = 0;
  }

  void make_room(LocalNodes& nodes, std::size_t more) {
    nodes.reserve(more);
    more_ = more;
    if (!fits(loaded_ + (nodes.count - tree_begin_))) load(nodes.ids.data(), nodes.count);
  }

  class Inserter : public LocalIds {
   public:
    Inserter(OneTreeRelabel& owner, LocalNodes& nodes, std::uint32_t* locals)
        : LocalIds(nodes, locals), owner_(owner), node_bits_(owner.node_bits_) {
      look_at_owner();
    }
    void prefetch(std::uint64_t /*node*/) const {}
    /// Finds the node as HashRelabel does: by a loop that mostly ends at once, and no branch behind it.
    void insert(std::uint64_t node, std::size_t at) {
      if (node >> node_bits_ != tree_) {
        owner_.begin_tree(node >> node_bits_, ids_, next_);
        look_at_owner();
      }
      std::uint32_t* const entry = find(table_, slot_bits_, ids_, node);
      *entry = take(node, at, *entry == kAbsent, *entry);
    }

   private:
    void look_at_owner() {
      table_ = owner_.table_.data();
      slot_bits_ = owner_.slot_bits_;
      tree_ = owner_.tree_;
    }
    OneTreeRelabel& owner_;
    std::uint32_t* table_ = nullptr;
    const int node_bits_;
    int slot_bits_ = 0;
    std::uint64_t tree_ = kNoTree;
  };

  std::size_t bytes() const { return table_.bytes(); }
  /// Returns the most bytes with so many nodes in a batch.
  std::size_t max_bytes(std::size_t nodes) const {
    return std::max(table_.bytes(), max_scratch_bytes(sizeof(std::uint32_t) << slot_bits_for(nodes)));
  }

 private:
  static constexpr std::uint64_t kNoTree = ~std::uint64_t{0};
  static constexpr int kMinSlotBits = 11;  // 8 KiB: cleared for each tree

  /// A Stretch is the nodes that one hop (or the seeds) gave, from `begin` to the next stretch, and the
  /// current tree's among them.
  struct Stretch {
    std::uint32_t begin = 0, tree_begin = 0, tree_end = 0;
  };

  // Tables are at most a quarter full, so that the loop of find() mostly ends at once.
  static int slot_bits_for(std::size_t nodes) {
    return std::max(kMinSlotBits, static_cast<int>(std::bit_width(4 * nodes)));
  }
  bool fits(std::size_t nodes) const { return slot_bits_for(nodes + more_) <= slot_bits_; }

  /// Returns where the local id of a node is, or goes.
  static std::uint32_t* find(std::uint32_t* table, int slot_bits, const std::int64_t* ids,
                             std::uint64_t node) {
    const std::size_t mask = (std::size_t{1} << slot_bits) - 1;
    auto slot = static_cast<std::size_t>(node * 0x9E3779B97F4A7C15u >> (64 - slot_bits));
    while (table[slot] != kAbsent && ids[table[slot]] != static_cast<std::int64_t>(node))
      slot = (slot + 1) & mask;
    return table + slot;
  }

  std::uint64_t tree_of(std::int64_t id) const { return static_cast<std::uint64_t>(id) >> node_bits_; }

  // Begins a tree; the next node to come has local id `count`.
  void begin_tree(std::uint64_t tree, const std::int64_t* ids, std::uint32_t count) {
    if (num_stretches_ == 0 || tree < tree_) {
      for (std::uint32_t s = 0; s < num_stretches_; ++s) stretches_[s].tree_end = stretches_[s].begin;
      stretches_[num_stretches_++] = {count, count, count};
    }
    tree_ = tree;
    tree_begin_ = count;
    loaded_ = 0;
    for (std::uint32_t s = 0; s + 1 < num_stretches_; ++s) {
      Stretch& stretch = stretches_[s];
      const std::uint32_t end = stretches_[s + 1].begin;
      std::uint32_t at = stretch.tree_end;
      while (at < end && tree_of(ids[at]) < tree) ++at;
      stretch.tree_begin = at;
      while (at < end && tree_of(ids[at]) == tree) ++at;
      stretch.tree_end = at;
      loaded_ += stretch.tree_end - stretch.tree_begin;
    }
    load(ids, count);
  }

  /// Puts the current tree, of the nodes below `count`, into an empty table that also fits `more_`.
  void load(const std::int64_t* ids, std::uint32_t count) {
    slot_bits_ = slot_bits_for(loaded_ + (count - tree_begin_) + more_);
    table_.reserve(std::size_t{1} << slot_bits_);
    std::memset(table_.data(), 0xFF, sizeof(std::uint32_t) << slot_bits_);
    const auto put = [&](std::uint32_t begin, std::uint32_t end) {
      for (std::uint32_t local = begin; local < end; ++local)
        *find(table_.data(), slot_bits_, ids, static_cast<std::uint64_t>(ids[local])) = local;
    };
    for (std::uint32_t s = 0; s + 1 < num_stretches_; ++s)
      put(stretches_[s].tree_begin, stretches_[s].tree_end);
    put(tree_begin_, count);
  }

  const int node_bits_;
  int slot_bits_ = 0;
  std::size_t more_ = 0;          // inserts to come before the next make_room
  std::uint64_t tree_ = kNoTree;  // the one in the table
  std::uint32_t tree_begin_ = 0;  // its first node of this hop
  std::uint32_t loaded_ = 0;      // its nodes of the hops before
  std::uint32_t num_stretches_ = 0;
  std::array<Stretch, kMaxHops + 1> stretches_{};
  ScratchArray<std::uint32_t> table_;
};

}  // namespace hopfeed
