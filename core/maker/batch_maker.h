// batch = f(dataset, options, key): sampling, then the block. Two calls, because the size is known only after
// sampling and the place for the block is granted by somebody else:
//
//   BatchMaker maker(dataset, seeds, options);
//   std::size_t bytes = maker.sample(key);
//   maker.write(block);                        // exactly `bytes` bytes at a multiple of 64
//
// One maker per thread; scratch is kept between batches, so a steady state allocates nothing.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/batch/held_share.h"
#include "core/dataset/dataset.h"
#include "core/maker/block_arrays.h"
#include "core/maker/block_maker.h"
#include "core/maker/mapped_features.h"
#include "core/sampler/sampler_registry.h"
#include "core/seeds/link_list.h"
#include "core/seeds/node_list.h"

namespace hopfeed {

class BatchMaker : public BlockMaker {
 public:
  /// `dataset` and `seeds` must outlive the maker; `make_neighbors` says who draws neighbours, and
  /// changes no byte; `make_source` says where attributes come from. Throws kInvalid, kNotFound or
  /// kUnsupported.
  BatchMaker(const Dataset& dataset, const NodeList& seeds, const BatchOptions& options,
             const NeighborSamplerFactory& make_neighbors = nullptr,
             const FeatureSourceFactory& make_source = mapped_features);
  /// Makes batches of links: with options.link, whose edge type the list is of. All else is as with nodes.
  BatchMaker(const Dataset& dataset, const LinkList& links, const BatchOptions& options,
             const NeighborSamplerFactory& make_neighbors = nullptr,
             const FeatureSourceFactory& make_source = mapped_features);
  ~BatchMaker() override;

  void bound_scratch(std::shared_ptr<ScratchBudget> budget) override;
  std::size_t sample(const BatchKey& key, HeldShare held = {}) override;
  void write(std::span<std::byte> block, const std::function<void()>& nearly_done = {}) override;
  void drop() override;
  TierCounts tier_counts() const override;
  GpuUse gpu_use() const override;
  /// What else fills blocks like its own shares with it, as long as it lives.
  struct Parts {
    SeedFields& seeds;
    const BatchFeatures& features;
    const BlockArrays& layout;
  };
  Parts parts();
  /// No batch of at most `batch_size` seeds (or links) is larger than this: from fanouts, node and edge
  /// counts.
  std::size_t max_block_bytes(std::int64_t batch_size) const;

  /// Memory of its own: tables that the graph bounds, held from the start on or (layer-dependent draws')
  /// later, and at most so much once it has made batches of `batch_size` seeds, of whose rows the consumer
  /// holds `held`.
  struct Scratch {
    std::size_t tables = 0, at_most = 0;
  };
  Scratch scratch(std::int64_t batch_size, HeldShare held = {}) const;
  /// What it holds now.
  std::size_t scratch_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
