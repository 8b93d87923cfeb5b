// A RowReader reads the rows of one edge type one at a time, checked: for samplers that do not need the
// pipeline of row_pipeline.h.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/prefetch.h"
#include "core/dataset/damaged_row.h"
#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"
#include "core/draws/excluded_rows.h"
#include "core/draws/left_out.h"
#include "core/sampler/fetched_rows.h"

namespace hopfeed {

/// A Row views the in-neighbours of one destination node, in imported order, or those that are left of them.
/// Its functions take i below `degree`.
class Row {
 public:
  std::uint64_t degree = 0;
  std::int64_t original_id = 0;  // of the destination: what draws are keyed by
  int edge_type = -1;            // whose row it is, and of which destination (dataset id); -1: of none
  std::int64_t node = -1;

  /// Returns a dataset id, unchecked: RowReader::neighbor checks it.
  std::int64_t neighbor(std::uint64_t i) const {
    return read(neighbors_, neighbor_bytes_, left_out_.place(i));
  }
  void prefetch(std::uint64_t i) const { prefetch_line(neighbors_ + left_out_.place(i) * neighbor_bytes_); }
  /// Returns the position of the edge in the import; only where the dataset stores edge ids.
  std::int64_t edge_id(std::uint64_t i) const { return read(edge_ids_, edge_id_bytes_, left_out_.place(i)); }
  /// Returns the position of the edge in the dataset's order, by which rows of edge attributes go. The
  /// positions of a copy in a halo lie behind all others, and are this machine's own.
  std::int64_t position(std::uint64_t i) const {
    return first_edge_ + static_cast<std::int64_t>(left_out_.place(i));
  }

 private:
  friend class RowReader;
  static std::int64_t read(const std::byte* base, std::uint32_t bytes, std::uint64_t i) {
    const std::byte* at = base + i * bytes;
    return bytes == sizeof(std::int32_t) ? *reinterpret_cast<const std::int32_t*>(at)
                                         : *reinterpret_cast<const std::int64_t*>(at);
  }
  const std::byte *neighbors_ = nullptr, *edge_ids_ = nullptr;
  std::uint32_t neighbor_bytes_ = 4, edge_id_bytes_ = 4;
  std::int64_t first_edge_ = 0;
  LeftOut left_out_;
};

class RowReader {
 public:
  /// `dataset` must outlive the reader.
  RowReader(const Dataset& dataset, int edge_type)
      : dataset_(&dataset), edge_type_(edge_type), csc_(dataset.csc(edge_type)) {
    if (!dataset.whole()) fetched_ = std::make_shared<FetchedRows>(dataset, edge_type);
  }

  const CscView& csc() const { return csc_; }
  int edge_type() const { return edge_type_; }
  /// Says that these rows will be read soon: those on other machines are asked for together. It is good for
  /// some thousand.
  void fetch(std::span<const std::int64_t> nodes) const {
    if (fetched_) fetched_->fetch(nodes);
  }
  void prefetch(std::int64_t node) const {
    const int p = partition(node);
    if (csc_.parts[p].rows == nullptr) return;
    prefetch_line(csc_.parts[p].rows + (node - csc_.partition_offsets[p]));
  }
  /// Returns the row of `node`, a dataset id in range. Throws kCorrupt naming file and row where its offsets
  /// are damaged, and what PartitionPeers throws of a row on another machine.
  Row row(std::int64_t node) const {
    const int p = partition(node);
    const CscPart& part = csc_.parts[p];
    if (part.rows == nullptr) return other_row(node);
    const std::int64_t r = node - csc_.partition_offsets[p];
    const std::int64_t begin = part.rows[r].offset, end = part.rows[r + 1].offset;
    if (begin < 0 || begin > end || end > part.num_edges)
      throw damage_error(*dataset_, edge_type_, {DamagedRow::What::kOffsets, p, r, 0});
    Row row;
    row.degree = static_cast<std::uint64_t>(end - begin);
    row.original_id = part.rows[r].original_id;
    row.edge_type = edge_type_;
    row.node = node;
    row.neighbor_bytes_ = static_cast<std::uint32_t>(element_bytes(csc_.index_type));
    row.neighbors_ = static_cast<const std::byte*>(part.indices) + begin * row.neighbor_bytes_;
    row.edge_id_bytes_ = static_cast<std::uint32_t>(element_bytes(csc_.edge_id_type));
    if (part.edge_ids != nullptr)
      row.edge_ids_ = static_cast<const std::byte*>(part.edge_ids) + begin * row.edge_id_bytes_;
    row.first_edge_ = part.first_edge + begin;
    return row;
  }
  /// Returns the row of a node without the edges that a batch excludes: what draws from it draws as if they
  /// were not there. Good until excluded.make_room() or begin().
  Row row(std::int64_t node, ExcludedRows& excluded) const {
    Row row = this->row(node);
    const std::span<const std::int64_t> sources = excluded.sources_of(edge_type_, node);
    if (sources.empty()) return row;
    row.left_out_ = excluded.left_out(excluded.row(edge_type_, sources,
                                                   {.at = reinterpret_cast<std::uint64_t>(row.neighbors_),
                                                    .degree = row.degree,
                                                    .type = csc_.index_type}));
    row.degree -= row.left_out_.count();
    return row;
  }
  /// Returns `row.neighbor(i)`; throws kCorrupt where it is no node.
  std::int64_t neighbor(const Row& row, std::uint64_t i) const {
    const std::int64_t node = row.neighbor(i);
    if (node < 0 || node >= csc_.num_src_nodes)
      throw damage_error(*dataset_, edge_type_, {DamagedRow::What::kSource, 0, 0, node});
    return node;
  }

  /// Returns the greatest degree of all rows on this machine: a bound for what a sampler keeps of one. Reads
  /// every row record (0.1 s for 25 million nodes), so it is for those who plan memory, not for each worker.
  /// Damaged rows do not count: row() refuses them. Of more than kMostRowsRead rows none is read, and a plan
  /// goes by kPlannedRow: a batch with a longer row is within its worker's ScratchBudget all the same.
  std::size_t greatest_degree() const {
    std::int64_t rows = 0;
    for (const CscPart& part : csc_.parts) rows += part.rows != nullptr ? part.num_rows : 0;
    if (rows > kMostRowsRead) return std::min(kPlannedRow, static_cast<std::size_t>(csc_.num_edges));
    std::uint64_t greatest = 0;
    for (const CscPart& part : csc_.parts) {
      if (part.rows == nullptr) continue;
      const auto edges = static_cast<std::uint64_t>(part.num_edges);
      for (std::int64_t r = 0; r < part.num_rows; ++r) {
        const auto begin = static_cast<std::uint64_t>(part.rows[r].offset),
                   end = static_cast<std::uint64_t>(part.rows[r + 1].offset);
        if (begin <= end && end <= edges) greatest = std::max(greatest, end - begin);
      }
    }
    return static_cast<std::size_t>(greatest);
  }

  static constexpr std::int64_t kMostRowsRead = std::int64_t{1} << 28;  // 4 GB of records, a second
  static constexpr std::size_t kPlannedRow = std::size_t{1} << 16;      // edges

 private:
  /// Returns the row of a node in a partition elsewhere: its copy in a halo, or as its owner gives it.
  Row other_row(std::int64_t node) const {
    if (const std::int64_t copy = dataset_->halo_id(csc_.dst_type, node); copy >= 0) {
      Row row = this->row(copy);
      row.node = node;
      return row;
    }
    const FetchedRows::Row fetched = fetched_->row(node);
    Row row;
    row.degree = fetched.degree;
    row.original_id = fetched.original_id;
    row.edge_type = edge_type_;
    row.node = node;
    row.neighbors_ = fetched.neighbors;
    row.neighbor_bytes_ = fetched.neighbor_bytes;
    row.edge_ids_ = fetched.edge_ids;
    row.edge_id_bytes_ = fetched.edge_id_bytes;
    row.first_edge_ = fetched.first_edge;
    return row;
  }
  int partition(std::int64_t node) const {
    return csc_.parts.size() == 1 ? 0 : partition_of(csc_.partition_offsets, node);
  }
  const Dataset* dataset_;
  int edge_type_;
  CscView csc_;
  std::shared_ptr<FetchedRows> fetched_;  // of other partitions, where there are some
};

/// Returns what finding excluded edges may take of samples with so many pairs, where so many rows are in use
/// together, which are distinct or known already. Reads row records as greatest_degree() does.
inline ExcludedRows::Most most_excluded(const Dataset& dataset, std::size_t pairs, std::size_t rows) {
  ExcludedRows::Most most{.edge_types = static_cast<std::size_t>(dataset.num_edge_types()), .pairs = pairs};
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    const RowReader reader(dataset, e);
    const std::size_t longest = reader.greatest_degree();
    most.longest = std::max(most.longest, longest);
    most.together =
        std::max(most.together, std::min(static_cast<std::size_t>(reader.csc().num_edges), rows * longest));
  }
  return most;
}

}  // namespace hopfeed
