// Whether two nodes are joined by an edge of a type: what strict negatives must not be.
#pragma once
#include <cstdint>

#include "core/dataset.h"
#include "core/has_edge.h"
#include "core/row_reader.h"

namespace hopfeed {

class EdgeMembership {
 public:
  /// `dataset` must outlive it.
  EdgeMembership(const Dataset& dataset, int edge_type) : dataset_(dataset), reader_(dataset, edge_type) {}
  /// Dataset ids in range: O(log degree) where the dataset has the order of source ids. Throws kCorrupt naming file and row, or the
  /// node, where the destination's row is damaged.
  bool contains(std::int64_t source, std::int64_t destination) const {
    return has_edge(dataset_, reader_, source, destination);
  }
  const RowReader& reader() const { return reader_; }

 private:
  const Dataset& dataset_;
  RowReader reader_;
};

}  // namespace hopfeed
