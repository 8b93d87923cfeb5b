// See batch_source.h.
#include "core/maker/batch_source.h"

#include <utility>

namespace hopfeed {

BatchSource::BatchSource(std::unique_ptr<const NodeSet> nodes, const NodeSet::ListOptions& options)
    : nodes_(std::move(nodes)), node_list_(nodes_->list(options)) {}

BatchSource::BatchSource(std::unique_ptr<const LinkSet> links, const LinkSet::ListOptions& options)
    : links_(std::move(links)), link_list_(links_->list(options)) {}

BatchMaker BatchSource::maker(const Dataset& dataset, const BatchOptions& options) const {
  if (links_) return BatchMaker(dataset, *link_list_, options);
  return BatchMaker(dataset, *node_list_, options);
}

}  // namespace hopfeed
