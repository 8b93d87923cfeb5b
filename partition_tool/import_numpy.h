// Graphs that lie in NumPy arrays: an edge index as PyG keeps it, features, labels and splits. A graph of
// several node and edge types is told by a description (numpy_description.h).
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partition_tool/numpy_arrays.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Arrays of one node type; empty: none (numpy_arrays.h has their forms).
struct NumpyNodes {
  std::string name = "node";
  /// Not given: as many rows as features, labels or attrs have, else the largest id in the edges + 1.
  std::optional<std::int64_t> count = {};
  ArraySource features, labels;  // attributes "x" and "y"
  std::map<std::string, ArraySource> splits;
  std::vector<NamedArray> attrs;
};

/// Arrays of one edge type.
struct NumpyEdges {
  std::string src = "node", rel = "to", dst = "node";
  ArraySource index;
  std::vector<NamedArray> attrs;     // the first dimension is E, in the order of `index`
  std::vector<std::string> weights;  // of attrs: one number each that edges can be drawn by
  std::vector<std::string>
      times;  // of attrs, or else of the source nodes' attrs: one int64 each that rows shall be ordered by
  std::string rev_of = {};  // "src__rel__dst" of the type that these are the reverse of; empty: of none
};

struct NumpyGraph {
  std::string name;
  std::vector<NumpyNodes> nodes;
  std::vector<NumpyEdges> edges;
};

/// Either the files of a graph of one type, or `hetero`.
struct NumpyImportOptions {
  std::filesystem::path edge_index;
  std::filesystem::path features, labels;
  std::map<std::string, std::filesystem::path> splits;
  std::vector<NamedArray> node_attrs, edge_attrs;
  std::vector<std::string> weights, times;
  std::int64_t num_nodes = 0;
  std::filesystem::path hetero;  // a description of a graph of several types
  bool keep_edge_ids = true;
  int threads = 1;
};

/// Attributes stay mapped and are read while the dataset is written. Throws kInvalid, kCorrupt, kNotFound or
/// kUnsupported naming the file.
RawGraph import_numpy(const NumpyImportOptions& options, const Progress& progress);
/// Imports a description that was read; of the options, `hetero` (its name in errors), keep_edge_ids and
/// threads count. Throws as the other does.
RawGraph import_numpy(const NumpyGraph& graph, const NumpyImportOptions& options, const Progress& progress);

}  // namespace hopfeed
