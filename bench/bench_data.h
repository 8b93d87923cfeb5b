// Finds the dataset that a benchmark reads: the user's, or a generated one that is kept between runs.
#pragma once
#include <filesystem>

#include "bench/bench_options.h"
#include "core/base/element_type.h"

namespace hopfeed::bench {

/// MadeUp says what a generated graph has beside features and labels: an edge attribute "weight" to draw by;
/// node attributes "time", which rows are ordered by, and "seed_time", from which every seed sees between the
/// half and all of them; or its nodes and edges in three node types and six edge types.
/// edges in three node types and six edge types.
enum class MadeUp { kNothing, kWeights, kTimes, kTypes };

/// Returns the folder of the dataset; generates it where `options.data` is empty and no run before has.
std::filesystem::path dataset_folder(const BenchOptions& options, MadeUp made_up = MadeUp::kNothing);

/// Returns the folder of that dataset with its features stored as another type, kept beside the generated
/// ones; it is dataset_folder() for the type that they have.
std::filesystem::path converted_folder(const BenchOptions& options, ElementType type);

/// Returns the folder of a graph of so many nodes and hardly an edge, dealt at random to two partitions: for
/// what has a row for each node. It is generated where no run before has.
std::filesystem::path nodes_folder(std::int64_t nodes);

/// Returns where generated datasets are kept between runs.
std::filesystem::path cache_folder();

}  // namespace hopfeed::bench
