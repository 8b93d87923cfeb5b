// The upper byte of each node's variate (labor_rule.h) under one key. Where a hop looks at most nodes several times, all of them
// made in the order of the nodes cost less than one at each look, and a byte per node stays in the nearer caches; one variate in
// 256 is not told from a threshold by its upper byte and is made in full.
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

  /// A byte for each node of the type; those of the last call stay as long as it asks for the same.
  const std::uint8_t* bytes_of(const Dataset& dataset, int node_type, std::uint64_t key) {
    if (node_type == node_type_ && key == key_) return bytes_.data();
    bytes_.reserve(static_cast<std::size_t>(dataset.num_nodes(node_type)));
    std::uint8_t* out = bytes_.data();
    for (int p = 0; p < dataset.meta().partitions; ++p) {
      const OriginalIds ids = dataset.original_ids(node_type, p);
      variate_bytes(ids, key, out);
      out += ids.count;
    }
    node_type_ = node_type;
    key_ = key;
    return bytes_.data();
  }

  std::size_t scratch_bytes() const { return bytes_.bytes(); }
  /// With so many nodes of a type.
  static std::size_t max_scratch_bytes(std::int64_t num_nodes) {
    return num_nodes > kMaxDirectNodes ? 0 : hopfeed::max_scratch_bytes(static_cast<std::size_t>(num_nodes));
  }

 private:
  static constexpr std::uint64_t kLooksForAByte =
      4;  // a look without bytes costs as much as the bytes of so many nodes
  ScratchArray<std::uint8_t> bytes_;
  int node_type_ = -1;
  std::uint64_t key_ = 0;
};

}  // namespace hopfeed
