// Local ids in order of first appearance. Two tables with one contract: a direct one (4 bytes per node of the graph, one
// access) for graphs up to kMaxDirectNodes, a hash table (4 bytes per slot, sized by the batch) for larger ones.
//
// An entry holds the local id in its low bits and the batch's generation above them, so that starting a batch touches
// nothing; when the generations are used up the table is cleared once.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/limits.h"
#include "core/scratch.h"

namespace hopfeed {

inline constexpr std::int64_t kMaxDirectNodes = std::int64_t{1} << 25;  // 128 MiB per worker

/// The nodes of one type in one batch: local id -> dataset id.
struct LocalNodes {
  ScratchArray<std::int64_t> ids;
  std::uint32_t count = 0;
};

class DirectRelabel {
 public:
  explicit DirectRelabel(std::int64_t num_nodes)
      : size_(static_cast<std::size_t>(num_nodes)),
        id_bits_(std::bit_width(static_cast<std::uint64_t>(num_nodes))) {
    table_.reserve(size_ + 1);
  }

  void begin_batch() {
    generation_ += 1u << id_bits_;
    if (generation_ >> id_bits_ == 0) {
      std::memset(table_.data(), 0, size_ * sizeof(std::uint32_t));
      generation_ = 1u << id_bits_;
    }
  }
  /// Room for `more` inserts.
  void make_room(LocalNodes& nodes, std::size_t more) { nodes.ids.reserve(nodes.count + more + 1); }
  void prefetch(std::int64_t node) const { __builtin_prefetch(table_.data() + node, 1); }
  /// Branch-free: the store to ids[count] counts only if count moves on.
  std::uint32_t insert(LocalNodes& nodes, std::int64_t node) {
    std::uint32_t entry = table_[static_cast<std::size_t>(node)];
    const bool fresh = ((entry ^ generation_) >> id_bits_) != 0;
    entry = fresh ? generation_ | nodes.count : entry;
    table_[static_cast<std::size_t>(node)] = entry;
    nodes.ids[nodes.count] = node;
    nodes.count += fresh;
    return entry & ((1u << id_bits_) - 1);
  }
  std::size_t bytes() const { return table_.bytes(); }

 private:
  std::size_t size_;
  int id_bits_;
  std::uint32_t generation_ = 0;
  ScratchArray<std::uint32_t> table_;
};

class HashRelabel {
 public:
  explicit HashRelabel(std::int64_t /*num_nodes*/) { resize(16); }

  void begin_batch() {
    generation_ += 1u << id_bits_;
    if (generation_ >> id_bits_ == 0) clear();
  }
  void make_room(LocalNodes& nodes, std::size_t more) {
    nodes.ids.reserve(nodes.count + more + 1);
    if ((nodes.count + more) * 2 <= std::size_t{1} << slot_bits_) return;
    if (nodes.count + more > kMaxBatchNodes)
      throw Error(ErrorCode::kUnsupported,
                  "a batch would hold more than 2^29 nodes; use smaller fanouts or batches");
    resize(std::bit_width((nodes.count + more) * 2));
    for (std::uint32_t i = 0; i < nodes.count; ++i) *find(nodes, nodes.ids[i]) = generation_ | i;
  }
  void prefetch(std::int64_t node) const { __builtin_prefetch(table_.data() + slot(node), 1); }
  std::uint32_t insert(LocalNodes& nodes, std::int64_t node) {
    std::uint32_t* entry = find(nodes, node);
    if ((*entry ^ generation_) >> id_bits_) {
      *entry = generation_ | nodes.count;
      nodes.ids[nodes.count++] = node;
    }
    return *entry & ((1u << id_bits_) - 1);
  }
  std::size_t bytes() const { return table_.bytes(); }

 private:
  std::size_t slot(std::int64_t node) const {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(node) * 0x9E3779B97F4A7C15u >>
                                    (64 - slot_bits_));
  }
  std::uint32_t* find(const LocalNodes& nodes, std::int64_t node) {
    const std::size_t mask = (std::size_t{1} << slot_bits_) - 1;
    for (std::size_t at = slot(node);; at = (at + 1) & mask) {
      const std::uint32_t entry = table_[at];
      if ((entry ^ generation_) >> id_bits_ || nodes.ids[entry & ((1u << id_bits_) - 1)] == node)
        return &table_[at];
    }
  }
  void resize(int slot_bits) {
    slot_bits_ = slot_bits;
    id_bits_ = slot_bits;  // half full at most, so a local id needs one bit less
    table_.reserve(std::size_t{1} << slot_bits_);
    clear();
  }
  void clear() {
    std::memset(table_.data(), 0, sizeof(std::uint32_t) << slot_bits_);
    generation_ = 1u << id_bits_;
  }

  int slot_bits_ = 0, id_bits_ = 0;
  std::uint32_t generation_ = 0;
  ScratchArray<std::uint32_t> table_;
};

}  // namespace hopfeed
