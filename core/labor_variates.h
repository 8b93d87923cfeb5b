// What a hop has to know of each node's variate (labor_rule.h) under one key. Where it looks at most nodes several times, the
// variates of all made in the order of the nodes cost less than one at each look. Kept are their upper bytes, which tell all but one
// in 256 from a threshold, and for rows of large degree a bit for each node, so that what most looks read stays in the nearer caches.
#pragma once
#include <cstdint>

#include "core/dataset.h"
#include "core/limits.h"
#include "core/relabel_table.h"
#include "core/scratch.h"
#include "core/vector_draws.h"

namespace hopfeed {

class LaborVariates {
 public:
  /// Whether a hop with so many rows of the edge type is better off with bytes.
  static bool pays(const CscView& csc, std::uint64_t rows) {
    if (csc.num_dst_nodes == 0 || csc.num_src_nodes > kMaxDirectNodes) return false;
    const auto degree = static_cast<std::uint64_t>(csc.num_edges / csc.num_dst_nodes) + 1;
    return rows * degree * kLooksForAByte >= static_cast<std::uint64_t>(csc.num_src_nodes);
  }

  /// Of the nodes of a type: bytes[i] = upper byte of node i's variate; bit i of `few`: whether that is below kFew.
  struct View {
    const std::uint8_t *bytes = nullptr, *few = nullptr;
  };
  static constexpr std::uint8_t kFew = 8;

  /// Those of the last call stay as long as it asks for the same.
  View of(const Dataset& dataset, int node_type, std::uint64_t key) {
    if (node_type != node_type_ || key != key_) make(dataset, node_type, key);
    return {bytes_.data(), few_.data()};
  }

  std::size_t scratch_bytes() const { return bytes_.bytes() + few_.bytes(); }
  /// With so many nodes of a type.
  static std::size_t max_scratch_bytes(std::int64_t num_nodes) {
    if (num_nodes > kMaxDirectNodes) return 0;
    const std::size_t room = room_for(num_nodes);
    return hopfeed::max_scratch_bytes(room) + hopfeed::max_scratch_bytes(room / 8);
  }

 private:
  static constexpr std::uint64_t kLooksForAByte =
      4;  // a look without bytes costs as much as the bytes of so many nodes

  static std::size_t room_for(std::int64_t num_nodes) {
    return (static_cast<std::size_t>(num_nodes) / kBytesTogether + 2) * kBytesTogether;
  }
  void make(const Dataset& dataset, int node_type, std::uint64_t key) {
    const std::size_t room = room_for(dataset.num_nodes(node_type));
    bytes_.reserve(room);
    few_.reserve(room / 8);
    std::uint8_t* out = bytes_.data();
    for (int p = 0; p < dataset.meta().partitions; ++p) {
      const OriginalIds ids = dataset.original_ids(node_type, p);
      variate_bytes(ids, key, out);
      out += ids.count;
    }
    mark_below(bytes_.data(), room, kFew, few_.data());
    node_type_ = node_type;
    key_ = key;
  }

  ScratchArray<std::uint8_t> bytes_, few_;
  int node_type_ = -1;
  std::uint64_t key_ = 0;
};

}  // namespace hopfeed
