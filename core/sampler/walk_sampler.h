// WalkSampler walks at random from each seed: uniformly, or biased as node2vec's (Grover & Leskovec,
// "node2vec: Scalable Feature Learning for Networks", KDD 2016). A step goes from a node to one of its
// in-neighbours. The batch's nodes are those that were visited, its edges those that were walked, a hop per
// step, and `walks` [seeds * per_seed, length + 1] has the local ids on each walk's way (in the node type of
// the step; -1 behind a node without neighbours). With subgraph = induced it is GraphSAINT's walk sampler
// (Zeng et al., ICLR 2020).
//
// node2vec weighs a neighbour x of v, when the walk came from t, by 1/p where x is t, by 1 where x is in t's
// row, by 1/q elsewhere. Draws are exact for these as multiples of 2^-32 of the largest: a neighbour is
// proposed uniformly and accepted by its weight (Yang et al., "KnightKing", SOSP 2019); a step that was
// refused kMaxProposals times is drawn from the sums of the row.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/draws/keyed_random.h"
#include "core/sampler/custom_sampler.h"

namespace hopfeed {

class WalkSampler : public CustomSampler {
 public:
  static constexpr std::uint32_t kMaxProposals = 64;

  /// Throws kInvalid naming the option, kNotFound for a metapath of edge types that are not there.
  WalkSampler(const Dataset& dataset, const BatchOptions& options);
  void sample(const SampleRequest& request, SampleBuilder& out) override;
  std::size_t num_hops() const override { return steps_.size(); }
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t scratch_bytes() const override {
    return at_.bytes() + before_.bytes() + sorted_.bytes() + excluded_.bytes();
  }
  /// Returns the most scratch. With p and q it reads all row records, since the longest row may come to be
  /// sorted.
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

  /// A Step has the draws of one step of one walk.
  struct Step {
    Row row;
    NodeStream stream;
    std::int64_t before = -1;  // dataset id of the node that it came from; -1: none
  };

 private:
  void require_start(int seed_type) const;
  void fetch_rows(const RowReader& reader, std::size_t walks);
  void run_step(const SampleRequest& request, std::size_t step, std::span<std::int64_t> ways,
                SampleBuilder& out);
  std::uint64_t pick(const RowReader& reader, const Step& step);
  std::uint64_t pick_of_sums(const RowReader& reader, const Step& step);
  bool accepts(const RowReader& reader, std::int64_t before, std::int64_t node, std::uint32_t word);
  bool is_near(const RowReader& reader, std::int64_t before, std::int64_t node);
  void sort_row(const RowReader& reader, std::int64_t before);
  bool is_in_sorted(std::int64_t node) const;

  const Dataset& dataset_;
  const WalkOptions options_;
  std::vector<RowReader> readers_;       // per edge type
  std::vector<int> steps_;               // [length] edge type of each step
  std::vector<std::int64_t> num_nodes_;  // per node type
  bool biased_ = false;
  std::uint64_t back_ = 0, near_ = 0, far_ = 0;  // weights of 1/p, 1 and 1/q, the largest 2^32
  ScratchArray<std::int64_t> at_, before_;       // [walks] dataset ids; -1: has ended; where it came from
  std::vector<std::int64_t> to_fetch_;
  // These are the neighbours of a node that many walks came from, in order: sorted_of_; and the node that may
  // be the next, by its votes.
  ScratchArray<std::int64_t> sorted_;
  std::uint64_t sorted_size_ = 0;
  std::int64_t sorted_of_ = -1, candidate_ = -1;
  std::uint32_t votes_ = 0;
  ExcludedRows excluded_;
  bool excludes_ = false;  // the last sample did
};

}  // namespace hopfeed
