// BatchFeatures knows the attributes that a batch carries: which they are, where their rows come from
// (feature_source.h), and where they lie in the block, those of nodes before those of edges.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/block_writer.h"
#include "core/batch/held_share.h"
#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"
#include "core/maker/held_split.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class BatchFeatures {
 public:
  /// `dataset` must outlive it. Throws kNotFound for attributes that the options name and the dataset does
  /// not have.
  BatchFeatures(const Dataset& dataset, const BatchOptions& options, const FeatureSourceFactory& make_source);

  std::size_t size() const { return features_.size(); }
  const FeatureName& name(std::size_t i) const { return features_[i].what; }
  /// Sets rows[i] to how many of attribute i a batch within `bounds` has at most.
  void most_rows(const SampleBounds& bounds, std::vector<std::int64_t>& rows) const;
  /// Sets rows[i] to how many of attribute i the block of `sample` has, whose views must hold until gather().
  /// Where the consumer holds rows and leaving them out makes the block smaller, the batch is packed.
  void prepare(const Sample& sample, HeldShare held, std::vector<std::int64_t>& rows);
  /// Returns whether the batch that was prepared leaves out what its consumer holds
  /// (core/batch/packed_block.h).
  bool packed() const { return packed_; }
  /// Announces an array for each attribute; at[i] is its number.
  void lay_out(std::span<const std::int64_t> rows, BlockWriter& out, std::vector<int>& at) const;

  /// Announces, for a packed batch, the arrays that tell of the held rows, after all others, and writes them.
  void lay_out_held(BlockWriter& out, std::vector<int>& at) const;
  void write_held(std::span<const int> at, BlockWriter& out) const;

  /// NearlyDone is told once where more than `last_bytes` of rows are gathered: when so many are left.
  struct NearlyDone {
    std::size_t last_bytes;
    const std::function<void()>& tell;  // may be empty
  };
  /// Writes the rows of the batch that was prepared, which has `rows` of each, into the arrays `at`.
  void gather(std::span<const std::int64_t> rows, std::span<const int> at, BlockWriter& out,
              const NearlyDone& nearly_done);
  /// Gives up the batch that was prepared.
  void drop();
  /// Returns the counts of all attributes together.
  TierCounts counts() const;
  /// Returns the memory for telling held rows from others: what it is, and comes to in batches within
  /// `bounds`.
  std::size_t split_bytes() const;
  std::size_t max_split_bytes(const SampleBounds& bounds) const;

 private:
  struct Feature {
    FeatureName what;
    AttrMeta meta;
    std::unique_ptr<FeatureSource> source;
  };
  void add(const Dataset& dataset, const FeatureName& what, const AttrMeta& meta,
           const FeatureSourceFactory& make_source);
  void find_node_features(const Dataset& dataset, const BatchOptions& options,
                          const FeatureSourceFactory& make_source);
  void find_edge_features(const Dataset& dataset, const BatchOptions& options,
                          const FeatureSourceFactory& make_source);

  bool worth_packing(const Sample& sample, HeldShare held);

  const Dataset& dataset_;
  std::vector<Feature> features_;
  std::vector<std::int64_t> row_bytes_;  // [node types] of all attributes; 0: none
  std::vector<HeldSplit> splits_;        // [node types] of the batch under way, where it is packed
  bool packed_ = false;
};

}  // namespace hopfeed
