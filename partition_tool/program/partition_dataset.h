// hopfeed-partition partition: a dataset, however it was cut, to one with another cut.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "partition_tool/program/make_dataset.h"

namespace hopfeed {

struct CutOptions : WriteOptions {  // fanouts and batch size: those of the input by default
  std::string input, method = "metis";
  std::int64_t parts = 1;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> metis_degree;  // default: what memory allows
};

/// Throws kCorrupt, and leaves nothing behind, where what was read is not what the input's fingerprint names.
void partition_dataset(const CutOptions& options);

}  // namespace hopfeed
