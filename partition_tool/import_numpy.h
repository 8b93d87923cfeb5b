// Graphs that lie in NumPy arrays: an edge index as PyG keeps it, features, labels and splits.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

struct NumpyImportOptions {
  std::filesystem::path edge_index;  // [2, E] int32 or int64: row 0 source, row 1 destination
  std::filesystem::path
      features;  // [N, F] float32 or float16 (kept), float64 (rounded to float32); empty: none
  std::filesystem::path labels;  // [N] or [N, 1] integers, or floats with integral values; negative or NaN:
                                 // unlabelled; empty: none
  std::map<std::string, std::filesystem::path>
      splits;  // name -> [S] int32 or int64 node ids, or a mask [N] of bool; an empty path: no such split
  /// More attributes, of any element type, kept as they are; the first dimension is N, and E in the order of `edge_index`.
  std::vector<NamedFile> node_attrs, edge_attrs;
  std::vector<std::string> weights;  // of edge_attrs: one number each that edges can be drawn by
  std::vector<std::string>
      times;  // of edge_attrs, or else of node_attrs: one int64 each that rows shall be ordered by
  std::int64_t num_nodes =
      0;  // 0: as many rows as features, labels or node_attrs have, else the largest id in the edges + 1
  bool keep_edge_ids = true;
  int threads = 1;
};

/// Attributes stay mapped and are read while the dataset is written. Throws kInvalid, kCorrupt, kNotFound or
/// kUnsupported naming the file.
RawGraph import_numpy(const NumpyImportOptions& options, const Progress& progress);

}  // namespace hopfeed
