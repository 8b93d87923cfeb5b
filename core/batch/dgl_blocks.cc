// See dgl_blocks.h.
#include "core/batch/dgl_blocks.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// The sum of the first `count` entries, checked against what the array they tell of holds.
std::int64_t prefix(std::span<const std::int64_t> per_hop, std::size_t count, std::size_t size) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count && i < per_hop.size(); ++i) sum += per_hop[i];
  if (count > per_hop.size() || sum < 0 || static_cast<std::size_t>(sum) > size)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("a batch tells of {} nodes or edges in {} hops, and has {}", sum, count, size));
  return sum;
}

std::size_t num_hops(const BatchView& batch) {
  const ArrayView counts = batch.find("num_sampled_nodes", Store::kNode);
  const std::size_t entries = counts.name.empty() ? 0 : counts.as<std::int64_t>().size();
  if (entries < 2)
    throw Error(ErrorCode::kInvalid,
                "this batch is not told hop by hop, so it has no blocks; sample neighbours, directional");
  return entries - 1;
}

}  // namespace

std::vector<DglBlock> dgl_blocks(const BatchView& batch) {
  const std::size_t hops = num_hops(batch);
  std::vector<DglBlock> blocks(hops);
  for (int t = 0; t < batch.header().num_node_types; ++t) {
    const auto ids = batch.get("n_id", Store::kNode, t).as<std::int64_t>(),
               per_hop = batch.get("num_sampled_nodes", Store::kNode, t).as<std::int64_t>();
    for (std::size_t i = 0; i < hops; ++i) {
      const std::int64_t dst = prefix(per_hop, hops - i, ids.size()),
                         src = prefix(per_hop, hops - i + 1, ids.size());
      blocks[i].nodes.push_back(
          {.num_src = src, .num_dst = dst, .src_ids = ids.first(static_cast<std::size_t>(src))});
    }
  }
  for (int e = 0; e < batch.header().num_edge_types; ++e) {
    const ArrayView drawn = batch.find("_orig_edge_index", Store::kEdge, e);  // of a bidirectional batch
    const auto index =
        (drawn.name.empty() ? batch.get("edge_index", Store::kEdge, e) : drawn).as<std::int64_t>();
    const auto per_hop = batch.get("num_sampled_edges", Store::kEdge, e).as<std::int64_t>();
    const ArrayView ids = batch.find("e_id", Store::kEdge, e);
    const std::size_t all = index.size() / 2;
    for (std::size_t i = 0; i < hops; ++i) {
      const auto count = static_cast<std::size_t>(prefix(per_hop, hops - i, all));
      DglBlock::Edges edges{.src = index.first(count), .dst = index.subspan(all, count), .e_id = {}};
      if (!ids.name.empty() && drawn.name.empty()) edges.e_id = ids.as<std::int64_t>().first(count);
      blocks[i].edges.push_back(edges);
    }
  }
  return blocks;
}

}  // namespace hopfeed
