// What is sampled and what a batch carries. Together with the dataset and the key it fixes every byte of a batch.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hopfeed {

struct BatchOptions {
  std::vector<std::int64_t> fanouts{
      15, 10, 5};            // neighbours drawn per node, hop by hop; -1 takes all; empty: seeds alone
  bool replace = false;      // draw with replacement
  bool edge_ids = false;     // field e_id: original edge positions
  bool dataset_ids = false;  // n_id in the dataset's own order instead of original ids
  std::optional<std::vector<std::string>> attrs =
      std::nullopt;  // node attributes to gather ("x", "y"); all where not set

  /// Throws kInvalid naming the option (fanout 0, below -1 or above kMaxFanout, more than kMaxHops hops).
  void validate() const;
  /// One canonical JSON line; `from_json` reads it back. Used to hand options to workers and to hash them.
  std::string to_json() const;
  static BatchOptions from_json(const std::string& json);
  /// XXH3-64 of to_json().
  std::uint64_t hash() const;
};

/// "15,10,5" -> {15, 10, 5}; "" -> {}. Throws kInvalid naming the part that is no number.
std::vector<std::int64_t> parse_fanouts(const std::string& text);

}  // namespace hopfeed
