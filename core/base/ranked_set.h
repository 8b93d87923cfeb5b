// A RankedSet is a set of whole numbers below a limit, each with its rank: how many smaller ones there are.
// It takes a bit for each number below the limit, and an eighth more (a rank directory: Jacobson 1989).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hopfeed {

class RankedSet {
 public:
  explicit RankedSet(std::int64_t limit = 0) : words_(static_cast<std::size_t>((limit + 63) / 64)) {}

  /// The number is below the limit. Ranks hold once close() was called behind the last add().
  void add(std::int64_t number) { words_[word(number)] |= bit(number); }
  void close() {
    ranks_.clear();
    size_ = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (i % kWords == 0) ranks_.push_back(size_);
      size_ += std::popcount(words_[i]);
    }
  }

  std::int64_t size() const { return size_; }
  bool contains(std::int64_t number) const { return (words_[word(number)] & bit(number)) != 0; }
  /// Of a number that it contains.
  std::int64_t rank(std::int64_t number) const {
    const std::size_t at = word(number);
    std::int64_t rank = ranks_[at / kWords];
    for (std::size_t i = at / kWords * kWords; i < at; ++i) rank += std::popcount(words_[i]);
    return rank + std::popcount(words_[at] & (bit(number) - 1));
  }
  /// Calls body(number) for those from `begin` to before `end`, rising.
  template <class Body>
  void for_each(std::int64_t begin, std::int64_t end, Body body) const {
    for (std::int64_t base = begin / 64 * 64; base < end; base += 64) {
      for (std::uint64_t left = words_[word(base)]; left != 0; left &= left - 1) {
        const std::int64_t number = base + std::countr_zero(left);
        if (number >= begin && number < end) body(number);
      }
    }
  }

 private:
  static constexpr std::size_t kWords = 8;  // a cache line
  static std::size_t word(std::int64_t number) { return static_cast<std::size_t>(number) / 64; }
  static std::uint64_t bit(std::int64_t number) { return std::uint64_t{1} << (number % 64); }

  std::vector<std::uint64_t> words_;
  std::vector<std::int64_t> ranks_;  // of each kWords words
  std::int64_t size_ = 0;
};

}  // namespace hopfeed
