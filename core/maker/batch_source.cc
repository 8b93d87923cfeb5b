// See batch_source.h.
#include "core/maker/batch_source.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace hopfeed {

BatchSource::BatchSource(std::unique_ptr<const NodeSet> nodes, const NodeSet::ListOptions& options)
    : nodes_(std::move(nodes)), node_list_(nodes_->list(options)) {}

BatchSource::BatchSource(std::unique_ptr<const LinkSet> links, const LinkSet::ListOptions& options)
    : links_(std::move(links)), link_list_(links_->list(options)) {}

BatchMaker BatchSource::maker(const Dataset& dataset, const BatchOptions& options,
                              const NeighborSamplerFactory& make_neighbors,
                              const FeatureSourceFactory& make_source) const {
  if (links_) return BatchMaker(dataset, *link_list_, options, make_neighbors, make_source);
  return BatchMaker(dataset, *node_list_, options, make_neighbors, make_source);
}

void dataset_was_replaced(const Dataset& dataset) {
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("the dataset {} was replaced while it was in use; start the loader, or the server, again",
                  dataset.folder().string()));
}

std::unique_ptr<BatchSource> open_source(const Dataset& dataset, const BatchSpec& spec,
                                         std::span<const std::byte> packed) {
  spec.require_rules();
  if (dataset.meta().fingerprint != spec.fingerprint) dataset_was_replaced(dataset);
  const bool given = !spec.seeds.sha256.empty();
  require_valid(given == !packed.empty(), given ? "the given seeds of the batches are not here"
                                                : "seeds are given beside a split; leave one of them out");
  if (spec.batch.link.on()) {
    const int edge_type = dataset.meta().edge_type(spec.batch.link.edge_type);
    auto links = given ? std::make_unique<LinkSet>(packed)
                       : std::make_unique<LinkSet>(dataset, edge_type, LinkInput{.split = spec.seeds.split});
    if (given) links->check(dataset.meta(), edge_type);
    return std::make_unique<BatchSource>(
        std::move(links), LinkSet::ListOptions{.edge_type = edge_type, .shuffle = spec.shuffle});
  }
  const int node_type = seed_node_type(dataset.meta(), spec.seeds.node_type);
  auto nodes = given ? std::make_unique<NodeSet>(packed)
                     : std::make_unique<NodeSet>(dataset, node_type, NodeInput{.split = spec.seeds.split});
  if (given) nodes->check(dataset.meta(), node_type);
  return std::make_unique<BatchSource>(std::move(nodes),
                                       NodeSet::ListOptions{.node_type = node_type, .shuffle = spec.shuffle});
}

}  // namespace hopfeed
