// TableRows are the rows of a table that this machine reads: those of its partitions and of its boundary,
// mapped.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "results/partition_rows.h"
#include "results/run_folder.h"
#include "results/source_rows.h"

namespace hopfeed {

class TableRows {
 public:
  /// Features as the dataset has them. `dataset` must outlive it, as of the other constructor.
  TableRows(const Dataset& dataset, int node_type, const std::string& attribute);
  /// Rows of float32 that the run has computed.
  TableRows(const Dataset& dataset, int node_type, const RunFolder& folder, const LayerName& name,
            std::int64_t width);
  TableRows(const TableRows&) = delete;
  TableRows& operator=(const TableRows&) = delete;

  /// Adds rows that lie elsewhere, which fetch_boundary() has brought. `boundary` must outlive it.
  void add_boundary(const RunFolder& folder, const LayerName& name, const RankedSet& boundary);

  const SourceRows& rows() const { return rows_; }
  /// Returns how many there are, and the bytes that they take as float32.
  std::int64_t count() const;
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(count()) * static_cast<std::uint64_t>(rows_.width) * sizeof(float);
  }
  /// Returns row `row` of a partition that is here, as it is stored.
  const std::byte* row(int part, std::int64_t row) const {
    return rows_.table.rows_of(static_cast<std::size_t>(part)) + row * stride();
  }

 private:
  std::int64_t stride() const { return static_cast<std::int64_t>(rows_.table.stride); }

  std::vector<std::unique_ptr<PartitionRows>> own_;
  std::unique_ptr<PartitionRows> elsewhere_;
  std::vector<std::uint64_t> arrays_;  // [P] addresses
  std::int64_t row_bytes_ = 0;
  SourceRows rows_;
};

}  // namespace hopfeed
