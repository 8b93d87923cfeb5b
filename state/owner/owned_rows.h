// OwnedRows are the rows of a node type that lie at an owner: those of the partitions that its dataset was
// opened with. They are numbered from 0 in the order of dataset ids; messages have dataset ids.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/dataset/dataset.h"

namespace hopfeed {

class OwnedRows {
 public:
  /// `dataset` must outlive it.
  OwnedRows(const Dataset& dataset, int node_type);

  std::int64_t count() const { return count_; }
  /// Returns the row of a dataset id; -1: it lies elsewhere, or there is no such node.
  std::int64_t row_of(std::int64_t dataset_id) const;
  std::int64_t dataset_id(std::int64_t row) const;
  /// Returns the original id of a row, which is what first values and checkpoints go by.
  std::int64_t original_id(std::int64_t row) const;
  /// Returns the row of an original id; -1: it lies elsewhere. Throws kInvalid for what is no node.
  std::int64_t row_of_original(std::int64_t original_id) const;
  std::vector<std::int64_t> partitions() const;  // that are here, rising
  std::int64_t num_partitions() const { return dataset_.meta().partitions; }
  enum class Order { kAny, kAscending };
  /// Returns the rows of dataset ids. Throws kInvalid naming one that lies elsewhere, and with kAscending one
  /// that is there twice or out of order.
  std::vector<std::int64_t> rows_of(std::span<const std::int64_t> dataset_ids, Order order) const;

 private:
  struct Range {
    std::int64_t first_id, end_id, first_row;
  };
  struct OfOriginal {
    std::int64_t id, row;
  };
  const Range* range_of_id(std::int64_t dataset_id) const;
  void invert() const;
  const Dataset& dataset_;
  const int node_type_;
  std::vector<Range> ranges_;  // of partitions that are here, rising
  std::int64_t count_ = 0;
  mutable std::once_flag inverted_;
  mutable std::vector<OfOriginal> by_original_;  // of all rows, where ids are sharded, at the first look-up
};

}  // namespace hopfeed
