// A RowByRowSampler is a custom sampler that goes hop by hop, as most do: it says of one row which neighbours
// it takes; the frontiers, the draws' keys and the bounds are here. examples/sampler_plugin/spaced_sampler.cc
// is one.
#pragma once
#include <cstdint>
#include <vector>

#include "core/draws/keyed_random.h"
#include "core/sampler/custom_sampler.h"

namespace hopfeed {

/// A HopRow is the row of a node of the frontier, without what the batch excludes.
struct HopRow {
  std::uint64_t degree;
  std::uint64_t most;  // neighbours that it may give in this hop
  int edge_type;
  NodeStream draws;  // of its own: draw_below, draw_below_wide (keyed_random.h)
  const Row& row;    // its neighbours, by position: for dataset ids, RowReader in row_reader.h
};

class RowByRowSampler : public CustomSampler {
 public:
  /// `most` [hops] is how many neighbours a row may give, 1 to kMaxFanout, hop by hop, in every edge type.
  /// Throws kInvalid.
  RowByRowSampler(const Dataset& dataset, std::vector<std::int64_t> most);
  /// Adds positions in [0, row.degree) to `picks`, which comes empty, at most row.most of them; a row without
  /// neighbours is not asked.
  virtual void pick(const HopRow& row, std::vector<std::uint64_t>& picks) = 0;

  void sample(const SampleRequest& request, SampleBuilder& out) final;
  std::size_t num_hops() const final { return most_.size(); }
  std::size_t scratch_bytes() const override { return excluded_.bytes(); }
  SampleBounds bounds(SeedCounts seeds) const final;

 private:
  void expand(const SampleRequest& request, std::size_t hop, const RowReader& reader, SampleBuilder& out);

  const std::vector<std::int64_t> most_;
  std::vector<RowReader> readers_;          // per edge type
  std::vector<std::int64_t> num_nodes_;     // per node type
  std::vector<std::uint32_t> begin_, end_;  // per node type: local ids of the frontier
  std::vector<std::uint64_t> picks_;
  ExcludedRows excluded_;
};

}  // namespace hopfeed
