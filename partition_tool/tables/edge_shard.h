// Makes the shard of the edges of one type that end in a partition, from rows sorted by destination and
// source: all that a dataset keeps of them, written block by block as they come.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/tables/arrow_stream.h"

namespace hopfeed {

struct EdgeShardOptions {
  int edge_type = 0, partition = 0;
  std::span<const std::int64_t> original_ids;  // [n] of the partition's nodes, in dataset order
  /// [n]: the id of each node's first in-edge; the ids of a row rise by one. Empty: no edge ids are stored.
  std::span<const std::int64_t> first_edge_ids;
  std::map<std::string, std::vector<std::int64_t>> time_bounds;  // by name, of all times (time_codes.h)
  int threads = 1;
  std::size_t max_row_bytes = std::size_t{512} << 20;  // of one row's edges, which lie in memory together
};

/// Reads the edges: columns `row` (int64, the destination's place within the partition), `src` (int64, the
/// source's original id), `src_new` (int64, its dataset id), the attributes by name, and times that are of
/// source nodes by theirs (int64). Rows come sorted by (row, src); edges of one pair are put in the order
/// of their attributes' bytes. Nothing is done where the shard is there. Throws kNotFound, kInvalid naming
/// the column, or the edge that is out of order or has a weight that nothing can be drawn by; kNoSpace; and
/// whatever made the stream throws.
void write_edge_shard(ArrowStream& stream, const DatasetMeta& draft, const EdgeShardOptions& options,
                      const std::filesystem::path& folder);

}  // namespace hopfeed
