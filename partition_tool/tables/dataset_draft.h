// A draft is what is known of a dataset before its first array is written: meta.json without checksum,
// fingerprint and files. Every task that makes a part of it gets the same text.
#pragma once
#include <string>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// Reads a draft: JSON as of meta.json, where attributes may lack their stride, and `keys` of a node type
/// is the type of its keys alone. Throws kInvalid where meta.json could not be such.
DatasetMeta parse_draft(const std::string& text);
/// Returns 16 hex digits that name a draft: shards of another do not fit.
std::string draft_name(const DatasetMeta& draft);

/// Returns a type of the draft by its number, for a task that was told it. Throws kInvalid where there is
/// none, or no such partition.
const NodeTypeMeta& node_type_of(const DatasetMeta& draft, int number);
const EdgeTypeMeta& edge_type_of(const DatasetMeta& draft, int number);
void require_partition(const DatasetMeta& draft, int partition);

}  // namespace hopfeed
