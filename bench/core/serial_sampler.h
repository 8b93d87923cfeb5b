// Samplers without pipelines, of every kind that can be measured: one node after the other, maps for local
// ids. Slow and obviously right; `--verify` compares the fast ones with it, array by array.
#pragma once
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/sampler.h"

namespace hopfeed::bench {

/// Throws kCorrupt naming the first array that differs from the serial sample; kUnsupported for options that
/// are not measured (clusters, node2vec, fanouts of single edge types).
void verify_sample(const Dataset& dataset, const BatchOptions& options, const SampleRequest& request,
                   const Sample& sample);

}  // namespace hopfeed::bench
