// A CustomSampler says what is drawn, without the business of local ids, orders and arrays. Random walks
// (walk_sampler.h) and clusters (cluster_sampler.h) are made of it, and so is what a plugin brings
// (sampler_plugin.h). examples/sampler_plugin/spaced_sampler.cc is a whole one; RowByRowSampler
// (row_by_row_sampler.h) does most of the work of those that go hop by hop.
//
// What makes hopfeed's batches what they are is up to it: a sample has to be a pure function of dataset,
// options and request, the same for every cut of the dataset. So draws come from core/draws/keyed_random.h,
// keyed by request.key and by ORIGINAL ids (Row), and nothing depends on a dataset id, a clock, a thread or
// an earlier request.
#pragma once
#include <cstdint>

#include "core/sampler/sample_builder.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class CustomSampler {
 public:
  virtual ~CustomSampler() = default;
  /// Adds nodes and edges to `out`, where the seeds already are, and calls out.end_hop() num_hops() times.
  /// What it throws ends the batch, not the worker: next() throws it.
  virtual void sample(const SampleRequest& request, SampleBuilder& out) = 0;
  virtual std::size_t num_hops() const = 0;
  /// Returns what no sample of so many seeds exceeds: a slot of the channel is planned for it, and a larger
  /// batch is an error.
  virtual SampleBounds bounds(SeedCounts seeds) const = 0;
  /// Returns memory of its own, beside the builder's: what it holds, and what that can come to with samples
  /// of so many seeds. It counts where the loader asks whether its workers fit.
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual std::size_t max_scratch_bytes(SeedCounts /*seeds*/) const { return scratch_bytes(); }
};

}  // namespace hopfeed
