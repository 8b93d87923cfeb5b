// See bidirectional_subgraph.h.
#include "core/sampler/bidirectional_subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/batch/field_names.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kReversed = std::uint64_t{1} << 63;
constexpr std::string_view kPrefix = "rev_";

std::optional<std::size_t> find_type(const DatasetMeta& meta, const std::string& src, const std::string& rel,
                                     const std::string& dst) {
  for (std::size_t e = 0; e < meta.edge_types.size(); ++e) {
    const EdgeTypeMeta& type = meta.edge_types[e];
    if (type.src == src && type.rel == rel && type.dst == dst) return e;
  }
  return {};
}

/// The reverse that was declared at the import, or else by its name.
std::size_t reverse_of(const DatasetMeta& meta, std::size_t e) {
  const EdgeTypeMeta& type = meta.edge_types[e];
  if (const int declared = meta.reverse_edge_type(static_cast<int>(e)); declared >= 0)
    return static_cast<std::size_t>(declared);
  if (type.rel.starts_with(kPrefix)) {
    if (const auto forward = find_type(meta, type.dst, type.rel.substr(kPrefix.size()), type.src))
      return *forward;
  }
  const std::string reverse = std::string(kPrefix) + type.rel;
  if (const auto backward = find_type(meta, type.dst, reverse, type.src)) return *backward;
  require_valid(
      type.src == type.dst,
      fmt::format(
          "edge type '{}' has no reverse type '{}__{}__{}', so a batch cannot have its edges in both "
          "directions; import the reverse too, name it where it is imported (rev_of), or choose subgraph "
          "directional or induced",
          type.folder(), type.dst, reverse, type.src));
  return e;
}

/// Calls f(source, target, number of the edge).
template <class F>
void for_each_edge(const SampledEdges& edges, F f) {
  if (!edges.targets.empty()) {
    for (std::size_t k = 0; k < edges.sources.size(); ++k) f(edges.sources[k], edges.targets[k], k);
    return;
  }
  std::size_t k = 0;
  for (std::size_t dst = 0; dst < edges.per_dst.size(); ++dst)
    for (std::uint32_t i = 0; i < edges.per_dst[dst]; ++i, ++k)
      f(edges.sources[k], static_cast<std::uint32_t>(dst), k);
}

}  // namespace

BidirectionalSubgraph::BidirectionalSubgraph(std::unique_ptr<Sampler> drawn, const Dataset& dataset,
                                             const BatchOptions& options)
    : sampler_(std::move(drawn)),
      dataset_(dataset),
      keep_orig_edges_(options.keep_orig_edges),
      edges_(static_cast<std::size_t>(dataset.num_edge_types())) {
  pair_types(options);
  result_.edges.resize(edges_.size());
}

void BidirectionalSubgraph::pair_types(const BatchOptions& options) {
  const DatasetMeta& meta = dataset_.meta();
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    edges_[e].reverse = reverse_of(meta, e);
    if (edges_[e].reverse == e) continue;
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorCode::kInvalid, fmt::format("in a bidirectional batch edge type '{}' has the reverses "
                                                   "of '{}' among its edges, which have no {} "
                                                   "here; leave it out",
                                                   meta.edge_types[e].folder(),
                                                   meta.edge_types[edges_[e].reverse].folder(), what));
    };
    if (options.edge_ids) refuse("edge ids");
    for (const AttrMeta& attr : meta.edge_types[e].attrs)
      if (std::ranges::find(options.edge_attrs, attr.name) != options.edge_attrs.end())
        refuse("edge attribute '" + attr.name + "'");
  }
}

const Sample& BidirectionalSubgraph::sample(const SampleRequest& request) {
  const Sample& drawn = sampler_->sample(request);
  result_.nodes = drawn.nodes;
  result_.num_seeds = drawn.num_seeds;
  result_.seed_index = drawn.seed_index;
  result_.arrays.resize(drawn.arrays.size() + (keep_orig_edges_ ? edges_.size() : 0));
  std::ranges::copy(drawn.arrays, result_.arrays.begin());
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    Edges& edges = edges_[e];
    merge(edges, drawn.edges[e], drawn.edges[edges.reverse]);
    if (request.excluded && request.excluded->any(static_cast<int>(e))) leave_out(e, *request.excluded);
    result_.edges[e] = {.sources = {edges.sources.data(), edges.count},
                        .per_dst = {},
                        .targets = {edges.targets.data(), edges.count},
                        .edge_ids = {},
                        .positions = {},
                        .per_hop = drawn.edges[e].per_hop};
    if (edges.reverse == e) {  // of other types nobody may ask
      result_.edges[e].edge_ids = taken(edges, drawn.edges[e].edge_ids, edges.edge_ids);
      result_.edges[e].positions = taken(edges, drawn.edges[e].positions, edges.positions);
    }
    if (keep_orig_edges_) keep(result_, e, drawn.edges[e]);
  }
  return result_;
}

void BidirectionalSubgraph::merge(Edges& edges, const SampledEdges& drawn, const SampledEdges& reversed) {
  const std::size_t most = drawn.sources.size() + reversed.sources.size();
  entries_.reserve(most);
  Entry* end = entries_.data();
  for_each_edge(drawn, [&](std::uint64_t source, std::uint64_t target, std::size_t k) {
    *end++ = {target << 32 | source, k};
  });
  for_each_edge(reversed, [&](std::uint64_t source, std::uint64_t target, std::size_t k) {
    *end++ = {source << 32 | target, kReversed | k};
  });
  std::sort(entries_.data(), end);
  end = std::unique(entries_.data(), end, [](const Entry& a, const Entry& b) { return a.ends == b.ends; });
  edges.count = static_cast<std::size_t>(end - entries_.data());
  edges.sources.reserve(most);
  edges.targets.reserve(most);
  for (std::size_t i = 0; i < edges.count; ++i) {
    edges.sources[i] = static_cast<std::uint32_t>(entries_[i].ends);
    edges.targets[i] = static_cast<std::uint32_t>(entries_[i].ends >> 32);
  }
}

// A drawn edge may be the reverse of one that the batch excludes.
void BidirectionalSubgraph::leave_out(std::size_t type, const ExcludedEdges& excluded) {
  Edges& edges = edges_[type];
  const CscView csc = dataset_.csc(static_cast<int>(type));
  const auto node = [&](int node_type, std::uint32_t local) {
    return result_.nodes[node_type].dataset_ids[local];
  };
  std::size_t left = 0;
  for (std::size_t i = 0; i < edges.count; ++i) {
    const std::uint32_t source = edges.sources[i], target = edges.targets[i];
    if (excluded.contains(static_cast<int>(type), node(csc.src_type, source), node(csc.dst_type, target)))
      continue;
    edges.sources[left] = source;
    edges.targets[left] = target;
    entries_[left++] = entries_[i];
  }
  edges.count = left;
}

// What the drawn edges have, for the edges of the last merge.
std::span<const std::int64_t> BidirectionalSubgraph::taken(const Edges& edges,
                                                           std::span<const std::int64_t> drawn,
                                                           ScratchArray<std::int64_t>& out) {
  if (drawn.empty()) return {};
  out.reserve(2 * drawn.size());
  for (std::size_t i = 0; i < edges.count; ++i) out[i] = drawn[entries_[i].origin & ~kReversed];
  return {out.data(), edges.count};
}

void BidirectionalSubgraph::keep(Sample& result, std::size_t type, const SampledEdges& drawn) {
  Edges& edges = edges_[type];
  const std::size_t count = drawn.sources.size();
  edges.drawn_index.reserve(2 * count);
  for_each_edge(drawn, [&](std::uint32_t source, std::uint32_t target, std::size_t k) {
    edges.drawn_index[k] = source;
    edges.drawn_index[count + k] = target;
  });
  SampledArray& array = result.arrays[result.arrays.size() - edges_.size() + type];
  array.spec.name = batch_field::kOrigEdgeIndex;
  array.spec.store = Store::kEdge;
  array.spec.type = static_cast<int>(type);
  array.spec.shape = {2, static_cast<std::int64_t>(count)};
  array.values = {edges.drawn_index.data(), 2 * count};
}

SampleBounds BidirectionalSubgraph::bounds(SeedCounts seeds) const {
  const SampleBounds drawn = sampler_->bounds(seeds);
  SampleBounds bounds = drawn;
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    bounds.edges[e] = saturating_sum(drawn.edges[e], drawn.edges[edges_[e].reverse]);
    if (keep_orig_edges_)
      bounds.arrays.push_back({.name = std::string(batch_field::kOrigEdgeIndex),
                               .store = Store::kEdge,
                               .type = static_cast<int>(e),
                               .shape = {2, drawn.edges[e]}});
  }
  return bounds;
}

std::size_t BidirectionalSubgraph::scratch_bytes() const {
  std::size_t bytes = sampler_->scratch_bytes() + entries_.bytes();
  for (const Edges& edges : edges_)
    bytes += edges.sources.bytes() + edges.targets.bytes() + edges.edge_ids.bytes() +
             edges.positions.bytes() + edges.drawn_index.bytes();
  return bytes;
}

std::size_t BidirectionalSubgraph::max_scratch_bytes(SeedCounts seeds) const {
  std::size_t bytes = sampler_->max_scratch_bytes(seeds), largest = 0;
  for (const std::int64_t count : bounds(seeds).edges) {
    const auto edges = static_cast<std::size_t>(count);
    largest = std::max(largest, edges);
    bytes += 2 * hopfeed::max_scratch_bytes(edges * sizeof(std::uint32_t)) +
             2 * hopfeed::max_scratch_bytes(edges * sizeof(std::int64_t)) +
             (keep_orig_edges_ ? hopfeed::max_scratch_bytes(2 * edges * sizeof(std::int64_t)) : 0);
  }
  return bytes + hopfeed::max_scratch_bytes(largest * sizeof(Entry));
}

}  // namespace hopfeed
