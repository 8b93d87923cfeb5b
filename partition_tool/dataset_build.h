// Writes a graph and the orders of its nodes to the files of a dataset folder, the last stage that import,
// generate and partition share. It streams block by block, so that beside the graph (rows that it makes are
// not held) only a few megabytes are in memory.
#pragma once
#include <map>
#include <span>
#include <string>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_writer.h"
#include "partition_tool/node_order.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct DatasetBuildOptions {
  CutMeta cut;          // method, fanouts, batch size, seed; edges_cut is filled in
  std::string made_by;  // the command line
  int threads = 1;
  bool sharded_ids = false;       // DatasetMeta::sharded_ids; not with one partition
  bool reject_nonfinite = false;  // kInvalid behind the first attribute that holds NaN or infinity
};

struct DatasetBuildResult {
  DatasetMeta meta;  // as it goes to DatasetWriter::commit
  std::map<std::string, std::int64_t>
      nonfinite;  // attribute ("<type>/<name>" of edges, and of nodes where there are several types) -> NaN
                  // and infinite values in it (float types, where any)
};

/// Writes every array; the caller commits. `orders` has one for each node type. The bytes do not depend on
/// the number of threads.
DatasetBuildResult build_dataset(DatasetWriter& writer, const RawGraph& graph,
                                 std::span<const NodeOrder> orders, const DatasetBuildOptions& options,
                                 const Progress& progress);

/// Returns the bytes from row to row: the row itself, rounded up to a multiple of 64 where it has at least 64
/// bytes and that costs at most a sixteenth of it.
std::int64_t row_stride(std::int64_t row_bytes);

}  // namespace hopfeed
