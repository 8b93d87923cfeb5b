// Writes datasets that are far larger than the disk for tests: files with holes, of which a few elements are
// there. So ids beyond 32 bits are real ones, and a file of hundreds of gigabytes takes some kilobytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/alias_entry.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed::testing {

/// A SparseFile is an array of a dataset: a head, and a hole with a few elements in it.
class SparseFile {
 public:
  /// Notes the file in `meta`. `item_bytes`: from entry to entry of the first dimension.
  SparseFile(DatasetMeta& meta, const std::filesystem::path& folder, const std::string& relative,
             const std::string& descr, const std::vector<std::int64_t>& shape, std::size_t item_bytes);
  /// Writes a value `first` bytes behind the begin of entry `at`.
  template <class T>
  void put(std::int64_t at, T value, std::size_t first = 0) {
    write(at, first, &value, sizeof(value));
  }

 private:
  void write(std::int64_t at, std::size_t first, const void* bytes, std::size_t count);
  std::size_t item_bytes_, head_bytes_;
  std::fstream file_;
};

/// A SparseEdge is an edge of a row, in its order.
struct SparseEdge {
  std::int64_t source = 0;  // dataset id
  std::int64_t id = 0;      // edge id
  double weight = 0;        // attribute "w", which has alias tables
  std::int64_t time = 0;    // attribute "t", which rows are ordered by: not falling within a row
};

/// Returns what SparseRows writes: `count` edges, `in_part` of them in each partition, with 64-bit ids, the
/// attributes "w" and "t", tables of "w" and rows in the order of "t".
EdgeTypeMeta sparse_edge_type(std::int64_t count, std::vector<std::int64_t> in_part);
/// Writes the bounds of "t".
void write_sparse_time_bounds(DatasetMeta& meta, const std::filesystem::path& folder,
                              const EdgeTypeMeta& edge);

/// SparseRows are all files of the edges into one partition.
class SparseRows {
 public:
  SparseRows(DatasetMeta& meta, const std::filesystem::path& folder, int partition, const EdgeTypeMeta& edge,
             std::int64_t nodes);
  /// Writes a row whose edges begin at `at` of the partition; rows rise, and so does `at`.
  void put(std::int64_t row, std::int64_t original_id, std::int64_t at, std::span<const SparseEdge> edges);
  /// Writes where a row begins, and the node that it is of.
  void put_record(std::int64_t row, std::int64_t at, std::int64_t original_id);

 private:
  const std::int64_t edges_;
  SparseFile rows_, indices_, edge_ids_, weights_, edge_times_, alias_, order_, times_, codes_, time_indices_;
};

/// A SparseGraph has 12 billion nodes and 15 billion edges in three partitions. The nodes in `nodes` and the
/// edges in `rows` are there; all others are holes, which read as node 0.
struct SparseGraph {
  static constexpr std::int64_t kNodes = 12'000'000'000, kEdges = 15'000'000'000, kWidth = 4, kClasses = 4;
  static constexpr int kPartitions = 3;
  static constexpr std::int64_t kBeyond = std::int64_t{1} << 33;  // ids from here on are what is tested
  static constexpr std::int64_t kTime = 25;                       // attribute "t" of every node that is there

  struct Edge {
    std::int64_t source = 0, id = 0;  // source: original id
    double weight = 0;
    std::int64_t time = 0;
  };
  std::vector<std::int64_t> nodes;                 // original ids, rising; node 0 is one
  std::map<std::int64_t, std::int64_t> new_id;     // of each of them
  std::map<std::int64_t, std::vector<Edge>> rows;  // by destination, an original id
  std::vector<std::int64_t> train;  // split "train": all nodes beyond kBeyond. "valid" is the same
  std::vector<std::int64_t> links;  // edge split "train": source, destination, ...
  /// Attributes "x" and "y" of a node.
  static float x_of(std::int64_t node, std::int64_t column) {
    return static_cast<float>(node % 1'000 + 1'000 * column);
  }
  static std::int64_t y_of(std::int64_t node) { return node % kClasses; }
};

/// Returns the one graph that tests share.
const SparseGraph& sparse_graph();
/// Writes it: some megabytes of disk. The node type is "node", the edge type node__to__node.
void write_sparse_dataset(const std::filesystem::path& folder, const SparseGraph& graph = sparse_graph());

}  // namespace hopfeed::testing
