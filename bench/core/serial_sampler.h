// The sampler without its pipeline: one node after the other, a map for local ids. Slow and obviously right; `--verify`
// compares the fast one with it, array by array.
#pragma once
#include "core/dataset.h"
#include "core/neighbor_sampler.h"

namespace hopfeed::bench {

/// Throws kCorrupt naming the first array that differs from the serial sample. Homogeneous graphs.
void verify_sample(const Dataset& dataset, const BatchOptions& options, const SampleRequest& request,
                   const Sample& sample);

}  // namespace hopfeed::bench
