// Relabel tables give local ids in order of first appearance. Two have one contract: a direct one (4 bytes
// per node of the graph, one access) for graphs up to kMaxDirectNodes, a hash table (16 bytes per slot, sized
// by the batch) for larger ones.
//
// An entry holds the batch's generation (the direct table: above the local id, in one word), so that starting
// a batch touches nothing; when the generations are used up the table is cleared once.
//
//   table.begin_batch(nodes);                        // empties `nodes`
//   table.make_room(nodes, more);
//   TABLE::Inserter inserter(table, nodes, locals);  // until the next make_room
//   inserter.insert(node, at);  ...                  // sets locals[at]
//   inserter.close();
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/prefetch.h"
#include "core/base/scratch.h"

namespace hopfeed {

inline constexpr std::int64_t kMaxDirectNodes = std::int64_t{1} << 25;  // 128 MiB per worker

inline constexpr std::uint32_t kAbsent = ~0u;

/// Returns `a` or `b`, by arithmetic on a mask that the compiler cannot see through: it made a branch of
/// every form that it understood, and whether a node is new is a coin toss.
inline std::uint32_t choose(bool first, std::uint32_t a, std::uint32_t b) {
  std::uint32_t mask = 0u - static_cast<std::uint32_t>(first);
  asm("" : "+r"(mask));
  return b ^ ((a ^ b) & mask);
}

/// LocalNodes are the nodes of one type in one batch: local id -> dataset id.
struct LocalNodes {
  ScratchArray<std::int64_t> ids;
  std::uint32_t count = 0;

  /// Makes sure that `more` ids fit, and one store behind them.
  void reserve(std::size_t more) {
    if (count + more > kMaxBatchNodes) {
      throw Error(ErrorCode::kUnsupported,
                  "a batch might hold more than 2^29 nodes of a type, counting each neighbour that is drawn "
                  "as a new one; use smaller fanouts or batches");
    }
    ids.reserve(count + more + 1);
  }
  /// Returns the most bytes for a batch of so many nodes, those included that were made ready for in vain.
  static std::size_t max_bytes(std::size_t nodes) { return decltype(ids)::max_bytes(nodes + 1); }
};

/// LocalIds is what the Inserters of all tables do with a node that they have looked up. What inserts need
/// lies here, so that the compiler keeps it in registers although they store.
class LocalIds {
 public:
  LocalIds(LocalNodes& nodes, std::uint32_t* locals)
      : nodes_(nodes), ids_(nodes.ids.data()), locals_(locals), next_(nodes.count) {}
  void close() const { nodes_.count = next_; }

 protected:
  /// Returns the local id of a node, the next one or the one that is known, and writes it to locals[at]. It
  /// has no branch, since it could not be predicted: the store to ids_[next_] counts only if next_ moves on.
  std::uint32_t take(std::uint64_t node, std::size_t at, bool is_new, std::uint32_t known) {
    const std::uint32_t local = choose(is_new, next_, known);
    ids_[next_] = static_cast<std::int64_t>(node);
    locals_[at] = local;
    next_ += is_new;
    return local;
  }

  LocalNodes& nodes_;
  std::int64_t* const ids_;
  std::uint32_t* const locals_;
  std::uint32_t next_;
};

class DirectRelabel {
 public:
  static constexpr bool kTrees = false;
  explicit DirectRelabel(std::int64_t num_nodes)
      : size_(static_cast<std::size_t>(num_nodes)),
        id_bits_(std::bit_width(static_cast<std::uint64_t>(num_nodes))) {
    table_.reserve(size_ + 1);
  }

  void begin_batch(LocalNodes& nodes) {
    nodes.count = 0;
    generation_ += 1u << id_bits_;
    if (generation_ >> id_bits_ == 0) {
      std::memset(table_.data(), 0, size_ * sizeof(std::uint32_t));
      generation_ = 1u << id_bits_;
    }
  }

  /// Makes sure that `more` inserts fit.
  void make_room(LocalNodes& nodes, std::size_t more) { nodes.reserve(more); }

  void prefetch(std::uint64_t node) const { prefetch_line(table_.data() + node); }
  /// Returns the local id of a node, or kAbsent.
  std::uint32_t find(std::uint64_t node) const {
    const std::uint32_t entry = table_[node] ^ generation_;
    return entry >> id_bits_ == 0 ? entry : kAbsent;
  }

  class Inserter : public LocalIds {
   public:
    Inserter(DirectRelabel& owner, LocalNodes& nodes, std::uint32_t* locals)
        : LocalIds(nodes, locals),
          table_(owner.table_.data()),
          generation_(owner.generation_),
          id_mask_((1u << owner.id_bits_) - 1) {}
    void prefetch(std::uint64_t node) const { prefetch_line_to_write(table_ + node); }
    void insert(std::uint64_t node, std::size_t at) {
      const std::uint32_t entry = table_[node] ^ generation_;
      table_[node] = generation_ | take(node, at, entry > id_mask_, entry);
    }

   private:
    std::uint32_t* const table_;
    const std::uint32_t generation_, id_mask_;
  };
  std::size_t bytes() const { return table_.bytes(); }
  std::size_t max_bytes(std::size_t /*nodes*/) const { return table_.bytes(); }

 private:
  std::size_t size_;
  int id_bits_;
  std::uint32_t generation_ = 0;
  ScratchArray<std::uint32_t> table_;
};

class HashRelabel {
  // An entry has its key beside it, so that a lookup reads one cache line and nothing behind it.
  struct Entry {
    std::uint64_t node;
    std::uint32_t generation, local;
  };

 public:
  static constexpr bool kTrees = false;
  explicit HashRelabel(std::int64_t /*num_nodes*/) { resize(16); }

  void begin_batch(LocalNodes& nodes) {
    nodes.count = 0;
    if (++generation_ == 0) clear();
  }

  void make_room(LocalNodes& nodes, std::size_t more) {
    nodes.reserve(more);
    if ((nodes.count + more) * 2 <= std::size_t{1} << slot_bits_) return;
    resize(std::bit_width((nodes.count + more) * 2));
    for (std::uint32_t i = 0; i < nodes.count; ++i) {
      const auto node = static_cast<std::uint64_t>(nodes.ids[i]);
      *find(table_.data(), slot_bits_, generation_, node) = {node, generation_, i};
    }
  }

  class Inserter : public LocalIds {
   public:
    Inserter(HashRelabel& owner, LocalNodes& nodes, std::uint32_t* locals)
        : LocalIds(nodes, locals),
          table_(owner.table_.data()),
          slot_bits_(owner.slot_bits_),
          generation_(owner.generation_) {}
    void prefetch(std::uint64_t node) const { prefetch_line_to_write(table_ + slot(node, slot_bits_)); }
    /// Finds where the node belongs by a loop that mostly ends at once; from there on it has no branch.
    void insert(std::uint64_t node, std::size_t at) {
      Entry* const entry = find(table_, slot_bits_, generation_, node);
      *entry = {node, generation_, take(node, at, entry->generation != generation_, entry->local)};
    }

   private:
    Entry* const table_;
    const int slot_bits_;
    const std::uint32_t generation_;
  };

  void prefetch(std::uint64_t node) const { prefetch_line(table_.data() + slot(node, slot_bits_)); }
  /// Returns the local id of a node, or kAbsent.
  std::uint32_t find(std::uint64_t node) {
    const Entry* entry = find(table_.data(), slot_bits_, generation_, node);
    return entry->generation == generation_ ? entry->local : kAbsent;
  }

  std::size_t bytes() const { return table_.bytes(); }
  /// Returns the most bytes with so many nodes in a batch.
  std::size_t max_bytes(std::size_t nodes) const {
    return std::max(table_.bytes(), max_scratch_bytes(sizeof(Entry) << std::bit_width(2 * nodes)));
  }

 private:
  static std::size_t slot(std::uint64_t node, int slot_bits) {
    return static_cast<std::size_t>(node * 0x9E3779B97F4A7C15u >> (64 - slot_bits));
  }
  /// Returns where the node is, or goes.
  static Entry* find(Entry* table, int slot_bits, std::uint32_t generation, std::uint64_t node) {
    const std::size_t mask = (std::size_t{1} << slot_bits) - 1;
    std::size_t at = slot(node, slot_bits);
    while (table[at].generation == generation && table[at].node != node) at = (at + 1) & mask;
    return table + at;
  }
  void resize(int slot_bits) {
    table_.reserve(
        std::size_t{1} << slot_bits);  // first: where memory is short, the table is still as it was
    slot_bits_ = slot_bits;
    clear();
  }
  void clear() {
    std::memset(table_.data(), 0, sizeof(Entry) << slot_bits_);
    generation_ = 1;
  }

  int slot_bits_ = 0;
  std::uint32_t generation_ = 0;
  ScratchArray<Entry> table_;
};

/// A TreeRelabel is for disjoint batches of several edge types (of one: one_tree_relabel.h): a node that
/// several trees reach has a local id in each. Ids are tree << node_bits | node.
class TreeRelabel : public HashRelabel {
 public:
  static constexpr bool kTrees = true;
  using HashRelabel::HashRelabel;
};

}  // namespace hopfeed
