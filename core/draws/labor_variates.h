// LaborVariates are what a hop has to know of each node's variate (labor_rule.h) under one key. Where it
// looks at most nodes several times, the variates of all made in the order of the nodes cost less than one at
// each look. Their upper 16 bits are kept, which tell all but one in 65,536 from a threshold, and a bit for
// whether these are below each of a few cuts: a look reads a bit, so that what most looks read stays in the
// nearer caches, and only what is below the row's cut is looked at again.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/limits.h"
#include "core/base/scratch.h"
#include "core/dataset/dataset.h"
#include "core/draws/labor_rule.h"
#include "core/draws/relabel_table.h"
#include "core/draws/vector_draws.h"

namespace hopfeed {

class LaborVariates {
 public:
  /// Returns whether the sources of an edge type are few enough for tables.
  static bool has_tables(const CscView& csc) { return csc.num_src_nodes <= kMaxDirectNodes; }
  static std::uint64_t looks_that_pay(const CscView& csc) {
    return static_cast<std::uint64_t>(csc.num_src_nodes) / kNodesForALook;
  }

  static constexpr std::array<std::uint16_t, 3> kCuts = {0x0800, 0x2000, 0x8000};

  /// A View has the variates of the nodes of a type: uppers[i] = upper 16 bits of node i's variate; bit i of
  /// below[c]: whether these are below kCuts[c].
  struct View {
    const std::uint16_t* uppers = nullptr;
    std::array<const std::uint8_t*, kCuts.size()> below{};

    /// Returns the bits of the least cut above the upper bits of a threshold, or null where most sources are
    /// below it.
    const std::uint8_t* bits_above(std::uint16_t upper) const {
      const auto cut = std::ranges::upper_bound(kCuts, upper) - kCuts.begin();
      return cut < std::ssize(kCuts) ? below[static_cast<std::size_t>(cut)] : nullptr;
    }
  };

  /// Wanted are hops under a key of kLaborHops hops, of which [first_hop, end_hop) are to come.
  struct Wanted {
    int node_type;
    std::uint64_t key;
    std::uint32_t first_hop, end_hop;
  };
  /// Returns the variates of the first hop that is wanted. The variates of the others are made with it, and
  /// stay while the key does.
  View of(const Dataset& dataset, const Wanted& wanted) {
    const std::uint32_t word = wanted.first_hop % kLaborHops;
    if (wanted.node_type != node_type_ || wanted.key != key_ || !views_[word].uppers) make(dataset, wanted);
    return views_[word];
  }

  std::size_t scratch_bytes() const { return uppers_.bytes() + bits_.bytes(); }
  /// Returns the most scratch with so many nodes of a type, and batches of so many hops.
  static std::size_t max_scratch_bytes(std::int64_t num_nodes, std::size_t hops) {
    if (num_nodes > kMaxDirectNodes) return 0;
    const std::size_t room = room_for(num_nodes) * std::min<std::size_t>(hops, kLaborHops);
    return hopfeed::max_scratch_bytes(room * sizeof(std::uint16_t)) +
           hopfeed::max_scratch_bytes(room / 8 * kCuts.size());
  }

 private:
  static constexpr std::uint64_t kNodesForALook =
      8;  // a look without tables costs as much as making those of so many nodes
  static constexpr std::int64_t kChunk =
      4096;  // nodes whose upper bits stay in the first-level cache until they are marked

  static std::size_t room_for(std::int64_t num_nodes) {
    return (static_cast<std::size_t>(num_nodes) / kMarkedTogether + 2) * kMarkedTogether;
  }

  void make(const Dataset& dataset, const Wanted& wanted) {
    const std::uint32_t first = wanted.first_hop % kLaborHops;
    views_ = {};  // before the memory behind them may move, or there is none
    room_ = room_for(dataset.num_nodes(wanted.node_type));
    num_tables_ = std::min(wanted.end_hop - wanted.first_hop, kLaborHops - first);
    uppers_.reserve(room_ * num_tables_);
    bits_.reserve(room_ / 8 * kCuts.size() * num_tables_);
    VariateWords out{};
    for (std::uint32_t t = 0; t < num_tables_; ++t) {
      View& view = views_[first + t];
      view.uppers = out[first + t] = uppers_of(t);
      for (std::size_t c = 0; c < kCuts.size(); ++c) view.below[c] = bits_of(t, c);
    }
    std::size_t made = 0, marked = 0;
    for (int p = 0; p < dataset.meta().partitions; ++p) {
      const OriginalIds ids = dataset.original_ids(wanted.node_type, p);
      for (std::int64_t begin = 0; begin < ids.count; begin += kChunk) {
        OriginalIds chunk = ids;
        chunk.first += begin * ids.stride;
        chunk.count = std::min(kChunk, ids.count - begin);
        upper_variates(chunk, wanted.key, made, out);
        made += static_cast<std::size_t>(chunk.count);
        marked = mark(marked, made / kMarkedTogether * kMarkedTogether);
      }
    }
    mark(marked, room_);
    node_type_ = wanted.node_type;
    key_ = wanted.key;
  }

  std::uint16_t* uppers_of(std::uint32_t table) { return uppers_.data() + table * room_; }
  std::uint8_t* bits_of(std::uint32_t table, std::size_t cut) {
    return bits_.data() + (table * kCuts.size() + cut) * (room_ / 8);
  }

  // Marks which of the nodes [begin, end) are below each cut, in all hops that were made; returns the end.
  std::size_t mark(std::size_t begin, std::size_t end) {
    for (std::uint32_t t = 0; t < num_tables_; ++t)
      for (std::size_t c = 0; c < kCuts.size(); ++c)
        mark_below(uppers_of(t) + begin, end - begin, kCuts[c], bits_of(t, c) + begin / 8);
    return end;
  }

  ScratchArray<std::uint16_t> uppers_;
  ScratchArray<std::uint8_t> bits_;
  std::size_t room_ = 0;                  // nodes of each table
  std::uint32_t num_tables_ = 0;          // one for each hop
  std::array<View, kLaborHops> views_{};  // by the word of the hop
  int node_type_ = -1;
  std::uint64_t key_ = 0;
};

}  // namespace hopfeed
