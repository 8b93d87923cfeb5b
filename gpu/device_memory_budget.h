// How many feature rows of each partition a device's memory holds, from what an option gives to them: a share
// of the rows, bytes, or what fits. Every attribute gets one share, as a client's cache does
// (cache/held_rows.h), so that a node is held with all that is known of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/batch/held_share.h"

namespace hopfeed::gpu {

struct DeviceMemoryBudget {
  std::string option = "--gpu-cache";  // what errors name
  bool automatic = false;              // what fits into kAutomaticShare of the free memory
  double ratio = 1;                    // of the rows, 0 to 1
  std::size_t bytes = 0;               // that they may take; 0: no such bound
};
/// The rest is the trainer's.
inline constexpr std::size_t kAutomaticShare = 4;

/// The rows of one attribute.
struct BudgetedRows {
  std::span<const std::int64_t> partition_offsets;  // [P + 1]
  std::int64_t row_bytes = 0;
};

/// Rows of each partition.
std::vector<std::int64_t> held_rows(HeldShare share, std::span<const std::int64_t> partition_offsets);
/// That a share of all attributes takes, at most kFarTooMany.
std::size_t held_bytes(HeldShare share, std::span<const BudgetedRows> attrs);

/// What is held of all attributes, where `free` bytes of the device's memory are. A ratio that was asked for
/// is held whole; of bytes, and of what fits, as many rows as they take. Throws kNoSpace where the device has
/// not so much, and where bytes have no room for a single row; kInvalid for a ratio that is none.
HeldShare fit_share(const DeviceMemoryBudget& budget, std::span<const BudgetedRows> attrs, std::size_t free);

}  // namespace hopfeed::gpu
