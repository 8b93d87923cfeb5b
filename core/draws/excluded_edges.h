// ExcludedEdges must not be seen by a batch: those that it is to predict, above all. They count as absent
// before neighbours are drawn (excluding_picker.h, row_reader.h). A pair stands for all edges from the one
// node to the other, parallel ones too.
//
// Per edge type the pairs lie sorted by destination and source, behind a filter of bits over the
// destinations: nearly every row that a sampler asks about has nothing excluded, and most of these cost one
// bit.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hopfeed {

class ExcludedEdges {
 public:
  /// Forgets what was there, not its memory. Pairs are added between begin() and finish(), and asked for
  /// behind it.
  void begin(int num_edge_types);
  /// Adds a pair of dataset ids; pairs come in any order, and as often as one likes.
  void add(int edge_type, std::int64_t src, std::int64_t dst);
  void finish();

  bool any(int edge_type) const { return !types_[static_cast<std::size_t>(edge_type)].sources.empty(); }
  /// Returns the sources whose edges to the destination are excluded: sorted, each once.
  std::span<const std::int64_t> sources_of(int edge_type, std::int64_t dst) const;
  bool contains(int edge_type, std::int64_t src, std::int64_t dst) const;

  /// Lists has all pairs of an edge type: the sources of destination i are those from first[i] to first[i +
  /// 1].
  struct Lists {
    std::span<const std::int64_t> destinations;
    std::span<const std::size_t> first;
    std::span<const std::int64_t> sources;
  };
  Lists lists(int edge_type) const {
    const Type& type = types_[static_cast<std::size_t>(edge_type)];
    return {.destinations = type.destinations, .first = type.first, .sources = type.sources};
  }

  int num_edge_types() const { return static_cast<int>(types_.size()); }
  /// Returns how many distinct pairs there are.
  std::size_t num_pairs(int edge_type) const {
    return types_[static_cast<std::size_t>(edge_type)].sources.size();
  }
  /// Returns a number below num_pairs() that a destination has for its own, by what sources_of() gave for it.
  std::size_t number_of(int edge_type, std::span<const std::int64_t> sources) const {
    return static_cast<std::size_t>(sources.data() -
                                    types_[static_cast<std::size_t>(edge_type)].sources.data());
  }
  std::size_t bytes() const;
  /// Returns what so many pairs take at most.
  static std::size_t max_bytes(int num_edge_types, std::size_t pairs);

 private:
  struct Pair {
    std::int64_t dst, src;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };
  struct Type {
    std::vector<Pair> pairs;
    std::vector<std::int64_t> sources;       // of the pairs
    std::vector<std::int64_t> destinations;  // distinct
    std::vector<std::size_t> first;          // [destinations + 1] where the pairs of each begin
    std::vector<std::uint64_t> filter;       // a bit for each destination, by its hash
    int filter_bits = 0;                     // log2 of their number

    std::uint64_t bit_of(std::int64_t dst) const {
      return static_cast<std::uint64_t>(dst) * 0x9E3779B97F4A7C15u >> (64 - filter_bits);
    }
  };
  std::vector<Type> types_;
};

}  // namespace hopfeed
