// Reads edges of a dataset one by one, with where their attributes lie: what the tools that make edge types
// anew read.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// An EdgeEntry is an in-edge of a row that is being made.
struct EdgeEntry {
  std::int64_t source = 0;
  std::int64_t id = 0;  // its place in the imported order; numbered anew later, so that gaps do not matter
  std::int64_t place =
      -1;  // of its attributes, counted through the partitions of the dataset; -1: a new edge
};

/// StoredRows are the rows of an edge type as the dataset has them, by original ids. `dataset` and `csc` must
/// outlive this.
class StoredRows {
 public:
  /// `csc` is what read_dataset() made of the edge type.
  StoredRows(const Dataset& dataset, int edge_type, const Csc& csc);

  const Csc& csc() const { return csc_; }
  /// Returns the place of the row's first edge; the others follow.
  std::int64_t place(std::int64_t row) const { return places_[row]; }
  /// Appends the in-edges of a row in their order; where no ids are stored, they are positions in the rows
  /// one after the other.
  void read(std::int64_t row, std::vector<EdgeEntry>& out) const;

 private:
  const Csc& csc_;
  std::vector<std::int64_t> places_;  // [rows]
};

/// A StoredAttr is an edge attribute by place.
class StoredAttr {
 public:
  StoredAttr(const Dataset& dataset, int edge_type, const std::string& name)
      : view_(dataset.edge_attr(edge_type, name)) {}
  const std::byte* at(std::int64_t place) const {
    const int p = partition_of(view_.partition_offsets, place);
    return view_.parts[p] + (place - view_.partition_offsets[p]) * view_.stride_bytes;
  }
  std::int64_t row_bytes() const { return view_.row_bytes; }

 private:
  AttrView view_;
};

}  // namespace hopfeed
