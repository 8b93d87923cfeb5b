// Makes the shard of one array that belongs to no partition: ids, keys, splits of nodes and of edges, bounds
// of times.
#pragma once
#include <filesystem>
#include <string>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/tables/arrow_stream.h"

namespace hopfeed {

struct ColumnShardOptions {
  /// Of a node type: "new_ids" (by original id), "original_ids" (by dataset id), "keys" (by original id),
  /// "split" (original ids in their order); of an edge type: "bounds" of a time; of an edge split
  /// "link_pairs" (source and destination by original id, one link behind the other) and "link_labels".
  std::string kind;
  int type = 0;           // number of the node or edge type
  std::string name = {};  // of the split or the time
};

/// Reads the stream's first column: int64, but for keys of other types (text, 16 bytes). Nothing is done
/// where the shard is there. Throws kInvalid naming what does not fit, kNoSpace; and whatever made the
/// stream throws.
void write_column_shard(ArrowStream& stream, const DatasetMeta& draft, const ColumnShardOptions& options,
                        const std::filesystem::path& folder);

}  // namespace hopfeed
