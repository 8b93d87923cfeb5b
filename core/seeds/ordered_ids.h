// OrderedIds are the nodes at the ends of a batch's links: each once, by rising id, and where each end's node
// is among them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hopfeed {

class OrderedIds {
 public:
  /// Puts `ids`, none below 0, in order, in O(count) for each byte of the greatest: `ids` becomes each of
  /// them once, by rising id, and places()[i] where what was ids[i] is now.
  void order(std::vector<std::int64_t>& ids);
  std::span<const std::int64_t> places() const { return places_; }
  std::size_t bytes() const;
  /// Returns what bytes() can come to with so many ids.
  static std::size_t max_bytes(std::size_t count);

 private:
  struct Numbered {
    std::int64_t id = 0;
    std::size_t number = 0;  // of those that were given
  };
  void sort(std::int64_t greatest);

  std::vector<Numbered> sorted_, spare_;
  std::vector<std::int64_t> places_;
};

}  // namespace hopfeed
