// Runs hopfeed-partition hotness: a dataset becomes one with the same partitions and another order inside
// each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "partition_tool/program/make_dataset.h"

namespace hopfeed {

struct OrderOptions : WriteOptions {  // fanouts and batch size: those of the input by default
  std::string input;
  std::string policy = "vip";  // hotness_policy.h
  std::int64_t epochs = 1;     // epochs that presample and oracle make
  std::uint64_t seed = 0;      // of these epochs, and of random
};

/// Makes the dataset. Throws kInvalid for a policy that is not there; kCorrupt, and leaves nothing behind,
/// where what was read is not what the input's fingerprint names.
void order_dataset(const OrderOptions& options);

}  // namespace hopfeed
