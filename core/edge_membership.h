// Whether two nodes are joined by an edge of a type: what strict negatives must not be.
#pragma once
#include <cstdint>

#include "core/dataset.h"
#include "core/row_reader.h"

namespace hopfeed {

class EdgeMembership {
 public:
  /// `dataset` must outlive it.
  EdgeMembership(const Dataset& dataset, int edge_type) : reader_(dataset, edge_type) {}
  /// Dataset ids in range. Throws kCorrupt naming file and row where the destination's row is damaged.
  bool contains(std::int64_t source, std::int64_t destination) const {
    const Row row = reader_.row(destination);
    for (std::uint64_t i = 0; i < row.degree; ++i)
      if (row.neighbor(i) == source) return true;
    return false;
  }
  const RowReader& reader() const { return reader_; }

 private:
  RowReader reader_;
};

}  // namespace hopfeed
