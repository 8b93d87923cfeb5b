// What a hop has to know of each node's variate (labor_rule.h) under one key. Where it looks at most nodes several times, the
// variates of all made in the order of the nodes cost less than one at each look. Kept are their upper 16 bits, which tell
// all but one in 65,536 from a threshold, and a bit for whether these are below each of a few cuts: a look reads a bit, so that what
// most looks read stays in the nearer caches, and only what is below the row's cut is looked at again.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "core/dataset.h"
#include "core/limits.h"
#include "core/relabel_table.h"
#include "core/scratch.h"
#include "core/vector_draws.h"

namespace hopfeed {

class LaborVariates {
 public:
  /// Of graphs that have tables: with so many sources to look at in a hop they pay.
  static bool has_tables(const CscView& csc) { return csc.num_src_nodes <= kMaxDirectNodes; }
  static std::uint64_t looks_that_pay(const CscView& csc) {
    return static_cast<std::uint64_t>(csc.num_src_nodes) / kNodesForALook;
  }

  static constexpr std::array<std::uint16_t, 3> kCuts = {0x0800, 0x2000, 0x8000};

  /// Of the nodes of a type: uppers[i] = upper 16 bits of node i's variate; bit i of below[c]: whether these are below kCuts[c].
  struct View {
    const std::uint16_t* uppers = nullptr;
    std::array<const std::uint8_t*, kCuts.size()> below{};

    /// The bits of the least cut above the upper bits of a threshold, or null where most sources are below it.
    const std::uint8_t* bits_above(std::uint16_t upper) const {
      const auto cut = std::ranges::upper_bound(kCuts, upper) - kCuts.begin();
      return cut < std::ssize(kCuts) ? below[static_cast<std::size_t>(cut)] : nullptr;
    }
  };

  /// Those of the last call stay as long as it asks for the same.
  View of(const Dataset& dataset, int node_type, std::uint64_t key) {
    if (node_type != node_type_ || key != key_) make(dataset, node_type, key);
    return view_;
  }

  std::size_t scratch_bytes() const { return uppers_.bytes() + bits_.bytes(); }
  /// With so many nodes of a type.
  static std::size_t max_scratch_bytes(std::int64_t num_nodes) {
    if (num_nodes > kMaxDirectNodes) return 0;
    const std::size_t room = room_for(num_nodes);
    return hopfeed::max_scratch_bytes(room * sizeof(std::uint16_t)) +
           hopfeed::max_scratch_bytes(room / 8 * kCuts.size());
  }

 private:
  static constexpr std::uint64_t kNodesForALook =
      8;  // a look without tables costs as much as making those of so many nodes

  static std::size_t room_for(std::int64_t num_nodes) {
    return (static_cast<std::size_t>(num_nodes) / kMarkedTogether + 2) * kMarkedTogether;
  }
  void make(const Dataset& dataset, int node_type, std::uint64_t key) {
    const std::size_t room = room_for(dataset.num_nodes(node_type));
    uppers_.reserve(room);
    bits_.reserve(room / 8 * kCuts.size());
    std::uint16_t* out = uppers_.data();
    for (int p = 0; p < dataset.meta().partitions; ++p) {
      const OriginalIds ids = dataset.original_ids(node_type, p);
      upper_variates(ids, key, out);
      out += ids.count;
    }
    view_.uppers = uppers_.data();
    for (std::size_t c = 0; c < kCuts.size(); ++c) {
      std::uint8_t* bits = bits_.data() + c * (room / 8);
      mark_below(uppers_.data(), room, kCuts[c], bits);
      view_.below[c] = bits;
    }
    node_type_ = node_type;
    key_ = key;
  }

  ScratchArray<std::uint16_t> uppers_;
  ScratchArray<std::uint8_t> bits_;
  View view_;
  int node_type_ = -1;
  std::uint64_t key_ = 0;
};

}  // namespace hopfeed
