// Alias tables give a weighted draw from a row in constant time (Walker, "An efficient method for generating
// discrete random variables with general distributions", 1977; Vose, "A linear algorithm ...", 1991), all in
// integers, so that every processor draws the same.
//
// The weights of a row of n edges become integers that sum up to n * 2^32: in proportion, rounded down,
// positive ones at least 1, the largest (the first of equals) takes what rounding left. Each edge then has a
// column of 2^32, of which `threshold` is its own and the rest another's. The draws are exact for these
// integers. Rows have fewer than 2^31 edges.
//
// Where all weights are zero, no column has anything: its threshold is 0 and its rest its own. Nothing is
// drawn from such a row.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/graph_view.h"

namespace hopfeed {

/// Returns the first weight that nothing can be drawn by: negative, NaN or infinite; weights.size() where
/// there is none.
std::size_t first_bad_weight(std::span<const double> weights);
/// Returns what is wrong with a weight: "is -1; weights are zero or above, and finite".
std::string why_bad(double weight);

/// An AliasBuilder turns weights into alias tables, row by row; it keeps its memory.
class AliasBuilder {
 public:
  /// Builds a table; `entries` has one element per weight. False where all weights are zero: nothing can be
  /// drawn from the row. Throws kInvalid where a weight is negative, NaN or infinite.
  bool build(std::span<const double> weights, std::span<AliasEntry> entries);

  std::size_t bytes() const {
    return integers_.capacity() * sizeof(std::uint64_t) +
           (small_.capacity() + large_.capacity()) * sizeof(std::uint32_t);
  }
  /// Returns the most bytes that it holds after rows of so many weights.
  static std::size_t max_bytes(std::size_t weights) {
    return 2 * weights * (sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t));  // vectors double
  }

 private:
  bool to_integers(std::span<const double> weights);
  std::vector<std::uint64_t> integers_;
  std::vector<std::uint32_t> small_, large_;
};

/// Returns whether the entry of any column says that nothing can be drawn from the row.
inline bool weighs_nothing(const AliasEntry& entry, std::uint32_t column) {
  return entry.threshold == 0 && entry.alias == column;
}

/// Returns the table of a single row, of at most kMaxWeightedDegree weights. Throws kInvalid for more, where
/// all are zero, and what AliasBuilder throws.
std::vector<AliasEntry> alias_table(std::span<const double> weights);

/// Writes the integers behind a row's table: what each edge weighs of n * 2^32. `out` has one element per
/// entry.
void alias_weights(const AliasTableView& table, std::uint64_t* out);
inline void alias_weights(std::span<const AliasEntry> entries, std::uint64_t* out) {
  const auto bytes = std::as_bytes(entries);
  alias_weights(AliasTableView{.first = bytes.data(), .count = entries.size()}, out);
}

}  // namespace hopfeed
