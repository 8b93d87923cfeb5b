// Whether a cut gives each partition a range of the ids alone (core/dataset/id_ranges.h).
#pragma once
#include <cstdint>
#include <string>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// Of a node type, from where on ids of all its nodes (8 to 16 bytes each) are no small part of a machine.
inline constexpr std::int64_t kShardedIdsNodes = 100'000'000;

/// Returns whether `ids` ("sharded", "replicated", or "auto": sharded where a node type of the input has
/// kShardedIdsNodes) shards them. Throws kInvalid where there is one partition to shard them to.
bool shards_ids(const std::string& ids, std::int64_t parts, const DatasetMeta& input);

}  // namespace hopfeed
