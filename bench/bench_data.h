// The dataset that a benchmark reads: the user's, or a generated one that is kept between runs.
#pragma once
#include <filesystem>

#include "bench/bench_options.h"
#include "core/base/element_type.h"

namespace hopfeed::bench {

/// What a generated graph has beside features and labels: an edge attribute "weight" to draw by, or node
/// attributes "time", which rows are ordered by, and "seed_time", from which every seed sees between the half
/// and all of them; or its nodes and edges in three node types and six edge types.
enum class MadeUp { kNothing, kWeights, kTimes, kTypes };

/// Folder of the dataset; generates it where `options.data` is empty and no run before has.
std::filesystem::path dataset_folder(const BenchOptions& options, MadeUp made_up = MadeUp::kNothing);

/// Folder of that dataset with its features stored as another type; dataset_folder() for the type that they
/// have. It is kept beside the generated ones.
std::filesystem::path converted_folder(const BenchOptions& options, ElementType type);

}  // namespace hopfeed::bench
