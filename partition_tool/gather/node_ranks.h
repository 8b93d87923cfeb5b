// NodeRanks is a set of nodes, a bit for each node that there is, and tells the place of each among those of
// the set.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace hopfeed {

class NodeRanks {
 public:
  explicit NodeRanks(std::int64_t nodes)
      : words_(static_cast<std::size_t>((nodes + 63) / 64)), nodes_(nodes) {}
  /// Bytes that a set takes.
  static std::uint64_t bytes(std::int64_t nodes) {
    return static_cast<std::uint64_t>((nodes + 63) / 64) * 16;
  }

  bool has(std::int64_t node) const { return (words_[node / 64] >> (node % 64) & 1) != 0; }
  /// Returns false where it is in the set already.
  bool add(std::int64_t node) {
    if (has(node)) return false;
    words_[node / 64] |= std::uint64_t{1} << (node % 64);
    ++size_;
    return true;
  }
  std::int64_t size() const { return size_; }
  std::int64_t num_nodes() const { return nodes_; }
  /// Readies rank(), when all nodes have been added.
  void rank_all() {
    before_.reserve(words_.size());
    std::int64_t sum = 0;
    for (const std::uint64_t word : words_) {
      before_.push_back(sum);
      sum += std::popcount(word);
    }
  }
  /// Returns how many nodes of the set are smaller.
  std::int64_t rank(std::int64_t node) const {
    const std::uint64_t smaller = words_[node / 64] & ((std::uint64_t{1} << (node % 64)) - 1);
    return before_[node / 64] + std::popcount(smaller);
  }
  /// Returns the smallest node from `node` on that is in the set, or is not; num_nodes() where there is none.
  std::int64_t next(std::int64_t node, bool in) const {
    while (node < nodes_) {
      const std::uint64_t word = (in ? words_[node / 64] : ~words_[node / 64]) >> (node % 64);
      if (word != 0) return std::min(nodes_, node + std::countr_zero(word));
      node += 64 - node % 64;
    }
    return nodes_;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::int64_t> before_;
  std::int64_t nodes_, size_ = 0;
};

}  // namespace hopfeed
