// Decides how many feature rows of each partition a device's memory holds, from what an option gives to them:
// a share of the rows, bytes, or what fits. Every attribute gets one share, as a client's cache does
// (cache/held_rows.h), so that a node is held with all that is known of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/cache_size.h"
#include "core/batch/held_share.h"

namespace hopfeed::gpu {

/// BudgetedRows are the rows of one attribute.
struct BudgetedRows {
  std::span<const std::int64_t> partition_offsets;  // [P + 1]
  std::int64_t row_bytes = 0;
};

/// Returns the rows of each partition that a share holds.
std::vector<std::int64_t> held_rows(HeldShare share, std::span<const std::int64_t> partition_offsets);
/// Returns the bytes that a share of all attributes takes, at most kFarTooMany.
std::size_t held_bytes(HeldShare share, std::span<const BudgetedRows> attrs);

/// What is held of all attributes, where `free` bytes of the device's memory are. A ratio that was asked for
/// is held whole; of bytes, and of what fits, as many rows as they take. Throws kNoSpace where the device has
/// not so much, and where bytes have no room for a single row; kInvalid for a ratio that is none.
HeldShare fit_share(const CacheSize& cache, std::span<const BudgetedRows> attrs, std::size_t free);

}  // namespace hopfeed::gpu
