// What the batches of a loader start from: nodes or links, in the order of an epoch. The loader and each of
// its workers have one; a worker's views what the loader packed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/batch/batch_spec.h"
#include "core/maker/batch_maker.h"
#include "core/maker/mapped_features.h"
#include "core/seeds/link_set.h"
#include "core/seeds/node_set.h"

namespace hopfeed {

class BatchSource {
 public:
  /// Throws what the sets' list() throws.
  BatchSource(std::unique_ptr<const NodeSet> nodes, const NodeSet::ListOptions& options);
  BatchSource(std::unique_ptr<const LinkSet> links, const LinkSet::ListOptions& options);
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  /// Positions of an epoch.
  std::int64_t size() const { return links_ ? link_list_->size() : node_list_->size(); }
  /// Whether it is more than a split of the dataset, so that workers have to be told.
  bool given() const { return links_ ? links_->given() : nodes_->given(); }
  std::vector<std::byte> pack() const { return links_ ? links_->pack() : nodes_->pack(); }
  /// `dataset` and this must outlive it; `make_neighbors` and `make_source` are BatchMaker's. Throws what
  /// BatchMaker's constructors throw.
  BatchMaker maker(const Dataset& dataset, const BatchOptions& options,
                   const NeighborSamplerFactory& make_neighbors = nullptr,
                   const FeatureSourceFactory& make_source = mapped_features) const;

 private:
  std::unique_ptr<const NodeSet> nodes_;
  std::unique_ptr<const LinkSet> links_;
  std::optional<NodeList> node_list_;
  std::optional<LinkList> link_list_;
};

/// Throws kNotFound: the folder has another dataset than the one that batches were begun with. Other servers
/// may have that still.
[[noreturn]] void dataset_was_replaced(const Dataset& dataset);

/// What a job's batches start from, as its spec says: a split of the dataset, or what was given and packed
/// elsewhere. `dataset` and `packed` (empty for a split) must outlive it. Throws kInvalid where the dataset
/// is not the spec's or has changed, or a given id is no node of it, kNotFound for a split or type that it
/// lacks, kVersion for a spec of other rules, kCorrupt for a pack that is none.
std::unique_ptr<BatchSource> open_source(const Dataset& dataset, const BatchSpec& spec,
                                         std::span<const std::byte> packed);

}  // namespace hopfeed
