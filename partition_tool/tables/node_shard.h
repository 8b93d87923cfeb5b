// Makes the shard of a partition's nodes of one type: a row of each attribute for each, in dataset order, and
// their hotness.
#pragma once
#include <filesystem>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/tables/arrow_stream.h"

namespace hopfeed {

/// Reads the partition's nodes: columns `original_id` int64, `hotness` float64, falling, and the attributes
/// by name. Nothing is done where the shard is there. Throws kNotFound, kInvalid naming the column;
/// kNoSpace; and whatever made the stream throws.
void write_node_shard(ArrowStream& stream, const DatasetMeta& draft, int node_type, int partition,
                      const std::filesystem::path& folder);

}  // namespace hopfeed
