// Makes the row cache in front of a dataset's files (cache/dynamic_cache.h), of which a machine has one: the
// workers of all loaders and ranks that read the dataset share it.
#pragma once
#include <memory>

#include "cache/feature_tiers.h"
#include "channel/machine_memory.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// Returns null where none is asked for, or no attribute is read from files. Rows are as hot as the dataset's
/// order says; where this machine has some partitions alone, they are as hot as the first of these reads
/// them. Throws kInvalid where row_cache_bytes is no row of each attribute, kNoSpace.
std::unique_ptr<const MachineMemory> shared_row_cache(const Dataset& dataset, const FeatureTiers& tiers);

}  // namespace hopfeed
