// BlockArrays knows the arrays of a batch block: which there are, how large, in which order. Fields and their
// order are the table of docs/batch.md. Whoever makes blocks (block_maker.h) lays them out with this, and
// then fills them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/block_writer.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_features.h"
#include "core/sampler/sampler.h"
#include "core/seeds/seed_fields.h"

namespace hopfeed {

class BlockArrays {
 public:
  /// Counts are all that the layout of a batch depends on.
  struct Counts {
    SampleBounds of;
    SeedRoom seeds;
    std::vector<std::int64_t> feature_rows;  // of each attribute
  };
  /// Places are the numbers of the arrays in the block, per type; empty: not in these batches.
  struct Places {
    std::vector<int> n_id, dataset_id, num_sampled_nodes, batch, edge_index, e_id, num_sampled_edges, sampled,
        features, held;
    SeedArrays seeds;
    void clear();
  };

  /// All arguments must outlive it. `hops` are the sampler's.
  BlockArrays(const Dataset& dataset, const BatchOptions& options, const SeedFields& seeds,
              const BatchFeatures& features, std::size_t hops);

  /// Counts what a sample has, all but feature_rows; `counts` is used again from batch to batch.
  static void count(const Sample& sample, const BatchKey& key, Counts& counts);
  void lay_out(const Counts& counts, BlockWriter& out, Places& at) const;
  /// Returns what the header of a block of magic kBlockMagic says, but for what BlockWriter fills in.
  BlockHeader header(const BatchKey& key) const;
  /// Throws kInvalid where an attribute has the name of a field of batches within `most`.
  void require_names_of_their_own(const Counts& most) const;

 private:
  const Dataset& dataset_;
  const BatchOptions& options_;
  const SeedFields& seeds_;
  const BatchFeatures& features_;
  const std::int64_t hops_;
  const std::uint64_t options_hash_;
  std::uint64_t fingerprint_[2];
};

}  // namespace hopfeed
