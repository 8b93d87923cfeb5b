// Rows of an attribute that can be read on this machine: those of its partitions, and what halos have copies
// of.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

class RowsHere {
 public:
  /// Of a node type (Store::kNode) or of an edge type (Store::kEdge). `dataset` must outlive it.
  RowsHere(const Dataset& dataset, Store store, int type, const AttrView& attr)
      : dataset_(dataset), is_node_(store == Store::kNode), type_(type), attr_(attr) {}
  /// Null: it lies on another machine alone.
  const std::byte* row(std::int64_t id) const {
    std::size_t p = part(id);
    if (attr_.parts[p] == nullptr) {
      if (is_node_) id = dataset_.halo_id(type_, id);
      if (!is_node_ || id < 0) return nullptr;
      p = part(id);
    }
    return attr_.parts[p] + (id - attr_.partition_offsets[p]) * attr_.stride_bytes;
  }

 private:
  std::size_t part(std::int64_t id) const {
    return static_cast<std::size_t>(partition_of(attr_.partition_offsets, id));
  }
  const Dataset& dataset_;
  const bool is_node_;
  const int type_;
  const AttrView attr_;
};

}  // namespace hopfeed
