// DamagedRow is damage that a sampler meets in a graph's files while it samples: found where only a row is
// known, named where the files are.
#pragma once
#include <cstdint>

#include "core/base/error.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// It says where the damage was found; the caller knows the file names.
struct DamagedRow {
  enum class What { kOffsets, kSource, kPosition, kWeight } what;
  int partition;
  std::int64_t row;    // kOffsets: row of the partition
  std::int64_t value;  // kSource: the id that is out of range; kPosition, kWeight: the original id of the row
};

/// Returns kCorrupt, naming file and row.
Error damage_error(const Dataset& dataset, int edge_type, const DamagedRow& damage);

}  // namespace hopfeed
