// These samplers have no pipelines, for every kind that can be measured: node after node, maps for local
// ids. They are slow and obviously right; `--verify` compares the fast ones with it, array by array.
//
// This is the independent restatement of docs/architecture.md: it has the order of a batch, the rules of what
// draws,/is drawn and the random numbers from its words, and shares no code with the samplers
// (core/sampler,/draws, core/draws) nor with the tests' oracle (tests/oracle), which knows random numbers as
// core/draws makes them. A mistake there would be in both of those, and is seen here. Only the dataset and
// its rows are read by the core; and since it reads them in place, it verifies graphs that do not fit into
// the oracle's edge lists.
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
