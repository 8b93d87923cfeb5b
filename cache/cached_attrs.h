// Tells which attributes the dynamic cache keeps rows of, and how hot each of their rows is.
#pragma once
#include <cstdint>
#include <vector>

#include "cache/row_heats.h"
#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

/// A CachedAttr is an attribute whose rows are kept.
struct CachedAttr {
  FeatureName what;
  std::int64_t rows = 0, row_bytes = 0;
  RowHeats heat;  // decides where nothing is known of the future
};

/// Returns the heat of the row that is at `place` of `count` in an order by hotness: classes grow with the
/// place, by a 16th to a 32nd of it, since the few rows that are hottest make the difference.
std::uint8_t heat_of_place(std::int64_t place, std::int64_t count);

/// Returns the attributes of a dataset that file_features.h reads from files; heat by the place of the row in
/// its partition, since datasets are written in the order of their hotness.
std::vector<CachedAttr> cached_attrs(const Dataset& dataset);

}  // namespace hopfeed
