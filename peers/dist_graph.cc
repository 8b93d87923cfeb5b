// See dist_graph.h.
#include "peers/dist_graph.h"

#include "core/sampler/peer_degrees.h"
#include "core/sampler/peer_ids.h"
#include "core/sampler/peer_rows.h"
#include "peers/open_partitions.h"

namespace hopfeed {

DistGraph::DistGraph(const std::filesystem::path& folder, const PeerOptions& options)
    : dataset_(open_partitions(folder, options, PeersAt::kKnown)) {}

std::int64_t DistGraph::num_edges(int edge_type) const {
  return meta().edge_types[static_cast<std::size_t>(edge_type)].count;
}

std::vector<std::int64_t> DistGraph::dataset_ids(int node_type, std::span<const std::int64_t> nodes) const {
  return dataset_ids_of_all(*dataset_, node_type, nodes);
}

std::vector<int> DistGraph::partition_of(int node_type, std::span<const std::int64_t> nodes) const {
  std::vector<int> partitions;
  const auto& offsets = meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  for (const std::int64_t id : dataset_ids(node_type, nodes))
    partitions.push_back(hopfeed::partition_of(offsets, id));
  return partitions;
}

std::vector<std::int64_t> DistGraph::in_degrees(int edge_type, std::span<const std::int64_t> nodes) const {
  return degrees_of_all(*dataset_, edge_type, dataset_ids(dataset_->csc(edge_type).dst_type, nodes));
}

std::vector<std::byte> DistGraph::features(int node_type, const std::string& name,
                                           std::span<const std::int64_t> nodes) const {
  const std::vector<std::int64_t> ids = dataset_ids(node_type, nodes);
  std::vector<std::byte> rows(ids.size() *
                              static_cast<std::size_t>(dataset_->attr(node_type, name).row_bytes));
  gather_rows_of_all(*dataset_, Store::kNode, node_type, name, ids, rows.data());
  return rows;
}

}  // namespace hopfeed
