// RowsHere are rows of an attribute that can be read on this machine: those of its partitions, and what halos
// have copies of.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

class RowsHere {
 public:
  /// They are rows of an attribute of a node type (Store::kNode) or of an edge type (Store::kEdge). `dataset`
  /// must outlive it.
  RowsHere(const Dataset& dataset, Store store, int type, const AttrView& attr)
      : dataset_(dataset), is_node_(store == Store::kNode), type_(type), attr_(attr) {}
  /// Returns a row; null where it lies on another machine alone.
  const std::byte* row(std::int64_t id) const {
    const Dataset::RowPlace at = is_node_ ? dataset_.row_place(type_, id) : edge_place(id);
    const std::byte* const first = attr_.parts[static_cast<std::size_t>(at.part)];
    return first == nullptr ? nullptr : first + at.row * attr_.stride_bytes;
  }

 private:
  Dataset::RowPlace edge_place(std::int64_t id) const {
    const int p = partition_of(attr_.partition_offsets, id);
    return {.part = p, .row = id - attr_.partition_offsets[static_cast<std::size_t>(p)]};
  }
  const Dataset& dataset_;
  const bool is_node_;
  const int type_;
  const AttrView attr_;
};

}  // namespace hopfeed
