// The dataset that a benchmark reads: the user's, or a generated one that is kept between runs.
#pragma once
#include <filesystem>

#include "bench/bench_options.h"

namespace hopfeed::bench {

/// Folder of the dataset; generates it where `options.data` is empty and no run before has.
std::filesystem::path dataset_folder(const BenchOptions& options);

}  // namespace hopfeed::bench
