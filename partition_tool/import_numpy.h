// Imports graphs that lie in NumPy arrays: an edge index as PyG keeps it, features, labels and splits. A
// graph of several node and edge types is told by a description (numpy_description.h).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "partition_tool/graph_memory.h"
#include "partition_tool/numpy_arrays.h"
#include "partition_tool/numpy_description.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// NumpyImportOptions has either the files of a graph of one type, or `hetero`.
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
  TellMemory tell_memory = {};  // before it is taken
};

/// Imports the files. Attributes stay mapped and are read while the dataset is written. Throws kInvalid,
/// kCorrupt, kNotFound or kUnsupported naming the file.
RawGraph import_numpy(const NumpyImportOptions& options, const Progress& progress);
/// Imports a description that was read; of the options, `hetero` (its name in errors), keep_edge_ids and
/// threads count. Throws what the import of files throws.
RawGraph import_numpy(const NumpyGraph& graph, const NumpyImportOptions& options, const Progress& progress);

}  // namespace hopfeed
