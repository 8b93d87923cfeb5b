// See row_by_row_sampler.h.
#include "core/sampler/row_by_row_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kFetched = 4'096;  // rows that are asked of other machines together

}  // namespace

RowByRowSampler::RowByRowSampler(const Dataset& dataset, std::vector<std::int64_t> most)
    : most_(std::move(most)) {
  require_valid(!most_.empty() && std::ssize(most_) <= kMaxHops,
                fmt::format("a sampler of {} hops; 1 to {} can be", most_.size(), kMaxHops));
  for (const std::int64_t count : most_)
    require_valid(count >= 1 && count <= kMaxFanout,
                  fmt::format("{} neighbours of a row in a hop; choose 1 to {}", count, kMaxFanout));
  for (int e = 0; e < dataset.num_edge_types(); ++e) readers_.emplace_back(dataset, e);
  for (int t = 0; t < dataset.num_node_types(); ++t) num_nodes_.push_back(dataset.num_nodes(t));
  begin_.resize(num_nodes_.size());
  end_.resize(num_nodes_.size());
}

void RowByRowSampler::sample(const SampleRequest& request, SampleBuilder& out) {
  excluded_.begin(request.excluded);
  std::ranges::fill(begin_, 0);
  for (std::size_t hop = 0; hop < most_.size(); ++hop) {
    for (std::size_t t = 0; t < end_.size(); ++t)
      end_[t] = static_cast<std::uint32_t>(out.nodes(static_cast<int>(t)).size());
    for (const RowReader& reader : readers_) expand(request, hop, reader, out);
    std::swap(begin_, end_);
    out.end_hop();
  }
}

void RowByRowSampler::expand(const SampleRequest& request, std::size_t hop, const RowReader& reader,
                             SampleBuilder& out) {
  const NodeStream draws = node_stream({.purpose = Purpose::kPlugin,
                                        .seed = request.key.seed,
                                        .epoch = request.key.epoch,
                                        .first = request.key.first,
                                        .hop = static_cast<std::uint32_t>(hop),
                                        .edge_type = static_cast<std::uint32_t>(reader.edge_type())});
  const int src = reader.csc().src_type, dst = reader.csc().dst_type;
  const auto most = static_cast<std::uint64_t>(most_[hop]);
  for (std::uint32_t target = begin_[dst]; target < end_[dst]; ++target) {
    if ((target - begin_[dst]) % kFetched == 0)
      reader.fetch(out.nodes(dst).subspan(target, std::min<std::size_t>(kFetched, end_[dst] - target)));
    excluded_.make_room();
    const Row row = reader.row(out.nodes(dst)[target], excluded_);
    if (row.degree == 0) continue;
    picks_.clear();
    pick({.degree = row.degree,
          .most = most,
          .edge_type = reader.edge_type(),
          .draws = draws.of(static_cast<std::uint64_t>(row.original_id)),
          .row = row},
         picks_);
    if (picks_.size() > most) {
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("a sampler took {} neighbours of a row, where {} are the most", picks_.size(), most));
    }
    for (const std::uint64_t i : picks_) {
      if (i >= row.degree)
        throw Error(ErrorCode::kInvalid, fmt::format("a sampler took neighbour {} of {}", i, row.degree));
      out.add_edge(reader.edge_type(), out.add_node(src, reader.neighbor(row, i)), target, row, i);
    }
  }
}

SampleBounds RowByRowSampler::bounds(SeedCounts seeds) const {
  std::vector<std::int64_t> frontier(num_nodes_.size(), 0);
  for (const auto& [type, count] : seeds)
    frontier[type] = std::min(saturating_sum(frontier[type], count), num_nodes_[type]);
  SampleBounds bounds{.nodes = frontier,
                      .edges = std::vector<std::int64_t>(readers_.size(), 0),
                      .seeds = total_of(seeds),
                      .arrays = {}};
  for (const std::int64_t most : most_) {
    std::vector<std::int64_t> next(frontier.size(), 0);
    for (std::size_t e = 0; e < readers_.size(); ++e) {
      const std::int64_t edges = saturating_product(frontier[readers_[e].csc().dst_type], most);
      bounds.edges[e] = saturating_sum(bounds.edges[e], edges);
      next[readers_[e].csc().src_type] = saturating_sum(next[readers_[e].csc().src_type], edges);
    }
    for (std::size_t t = 0; t < next.size(); ++t) {
      frontier[t] = std::min(next[t], num_nodes_[t]);
      bounds.nodes[t] = std::min(saturating_sum(bounds.nodes[t], frontier[t]), num_nodes_[t]);
    }
  }
  return bounds;
}

}  // namespace hopfeed
