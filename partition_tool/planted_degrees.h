// Decides the power laws of made-up graphs (generate.h says which) on integers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace hopfeed {

__extension__ using Wide = unsigned __int128;

inline std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(Wide{a} * b >> 64);
}

/// Returns floor(sqrt(value)) for value < 2^127; the estimate in double is put right in integers.
inline std::uint64_t integer_sqrt(Wide value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (Wide{root} * root > value) --root;
  while (Wide{root + 1} * (root + 1) <= value) ++root;
  return root;
}

/// PlantedDegrees shares the edges among ranks as the increments of G(y) = 2 sqrt(y) - 4/5 y, y from z0 / M
/// to 1: its slope y^(-1/2) - 4/5 is the power law, cut off below z0.
class PlantedDegrees {
 public:
  PlantedDegrees(std::int64_t num_nodes, std::int64_t num_edges)
      : num_nodes_(static_cast<std::uint64_t>(num_nodes)),
        num_edges_(static_cast<std::uint64_t>(num_edges)),
        z0_(1 + num_nodes_ / 65'536),
        end_(num_nodes_ + z0_),
        low_(g(z0_)),
        span_(g(end_) - low_) {}

  /// Returns the edges of the first `ranks` ranks, short of what rounding takes back.
  std::uint64_t upto(std::uint64_t ranks) const {
    if (ranks == num_nodes_) return num_edges_;
    return static_cast<std::uint64_t>(Wide{num_edges_} * (std::max(g(ranks + z0_), low_) - low_) / span_);
  }

 private:
  std::uint64_t g(std::uint64_t y) const {
    constexpr Wide kOne = Wide{1} << 38;  // fixed point; 4 * 2^76 * 2^48 nodes stay below 2^127
    return integer_sqrt(4 * kOne * kOne * y / end_) -
           static_cast<std::uint64_t>(4 * kOne * y / (5 * Wide{end_}));
  }
  std::uint64_t num_nodes_, num_edges_, z0_, end_, low_, span_;
};

/// Returns a rank below `count` from 48 random bits. t is even on [1/8, 1), so t^5 on [2^-15, 1) has the
/// density x^(-4/5); the cut-off keeps the first rank from being everybody's neighbour.
inline std::uint64_t draw_rank(std::uint64_t random, std::uint64_t count) {
  const std::uint64_t t = (std::uint64_t{1} << 61) + 7 * (random << 13);  // in units of 2^-64
  const std::uint64_t t2 = high_product(t, t), x = high_product(high_product(t2, t2), t);
  const std::uint64_t cut = count / 32'767;
  return high_product(x, count + cut) - cut;  // floor(x (count + cut)) >= cut, as x >= 2^-15
}

}  // namespace hopfeed
