// Makes the shard of a partition's ids, where ids are sharded: what it has of original and dataset ids, of
// splits and of edge splits (id_ranges.h, remote_ids.h). It is made of the arrays that would be the dataset's
// if every machine had all ids, and of the partition's edges; these lie in shards that were made before.
#pragma once
#include <filesystem>
#include <span>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// `shards` are folders of the shards "new_ids", "original_ids", "split", "link_pairs" and "link_labels" of
/// all types, and of the partition's edges. It holds a bit for each node of a type. Nothing is done where the
/// shard is there. Throws kNotFound naming an array that none of them has, kCorrupt for ids that are none.
void write_id_shard(const DatasetMeta& draft, int partition, std::span<const std::filesystem::path> shards,
                    const std::filesystem::path& folder);

}  // namespace hopfeed
