// Measures what a byte of a block costs the cores on its way through a TCP connection of this machine:
// sending, receiving, and the checksum that both ends make.
#pragma once
#include <cstddef>

#include "partition_tool/tune/tune_model.h"

namespace hopfeed {

/// Sends blocks of `block_bytes` from one thread to another for `seconds`. No rate of a network is set.
/// Throws kIo.
WireRates measure_loopback(std::size_t block_bytes, double seconds);

}  // namespace hopfeed
