// Computes hit rate against ratio: which share of the rows that batches read a consumer would hold, were the
// rows of each partition ordered by some hotness and a prefix of that order held (core/batch/held_share.h).
// It takes counts of one pass of batches, so that all policies and all ratios are judged by the same reads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/held_share.h"

namespace hopfeed {

/// RowReads are the reads of one node type.
struct RowReads {
  std::span<const std::int64_t> counts;             // [N] by dataset id: batches that read the row
  std::span<const std::int64_t> partition_offsets;  // [P + 1]
};

/// Returns all dataset ids of the type, partition by partition, in each the hottest first. `hotness` [N];
/// what is equally hot goes by the smaller of `ties` [N], or by the smaller dataset id where that is empty.
std::vector<std::int64_t> hotness_order(std::span<const double> hotness, std::span<const std::int64_t> ties,
                                        std::span<const std::int64_t> partition_offsets);

/// Returns per share how many of the reads are of rows that are held: of each partition the first
/// share.rows(count) of `order`, as hotness_order() gives one. An empty order stands for the dataset's own.
std::vector<std::int64_t> held_reads(const RowReads& reads, std::span<const std::int64_t> order,
                                     std::span<const HeldShare> shares);

/// Returns how many rows of a type a share holds, over all partitions.
std::int64_t held_rows_of(std::span<const std::int64_t> partition_offsets, HeldShare share);

}  // namespace hopfeed
