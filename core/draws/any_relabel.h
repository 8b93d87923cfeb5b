// Chooses the relabel table that suits a graph and its batches.
#pragma once
#include <cstdint>
#include <variant>

#include "core/draws/relabel_table.h"

namespace hopfeed {

/// AnyRelabel is the table of batches whose nodes have one local id each.
using AnyRelabel = std::variant<DirectRelabel, HashRelabel>;

inline AnyRelabel make_relabel(std::int64_t num_nodes) {
  if (num_nodes <= kMaxDirectNodes) return DirectRelabel(num_nodes);
  return HashRelabel(num_nodes);
}

}  // namespace hopfeed
