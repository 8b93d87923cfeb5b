// The boundary of a machine's partitions: nodes elsewhere that edges of these come from. Their rows are
// fetched once a table, in large blocks, into files of the run's folder.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/ranked_set.h"
#include "core/dataset/dataset.h"
#include "results/run_folder.h"

namespace hopfeed {

/// Returns the nodes in partitions elsewhere that edges of these types come from, which all have this source
/// type. Throws kCorrupt.
RankedSet boundary_of(const Dataset& dataset, int source_type, std::span<const int> edge_types);

/// BoundaryFetch brings rows of one partition: by their rising numbers in it, and by their dataset ids.
using BoundaryFetch = std::function<void(int partition, std::span<const std::uint32_t> rows,
                                         std::span<const std::int64_t> ids, std::byte* out)>;

/// Fetches the rows of a boundary that are not in the folder yet. They lie there as shards of partition 0, by
/// rising id, of `shard_height` rows each.
void fetch_boundary(const RunFolder& folder, const LayerName& name, const RankedSet& boundary,
                    std::span<const std::int64_t> offsets, std::int64_t row_bytes, std::int64_t shard_height,
                    const BoundaryFetch& fetch);

}  // namespace hopfeed
