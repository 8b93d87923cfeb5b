// See sample_builder.h.
#include "core/sampler/sample_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/saturating.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kMaxArrayShare = 256;  // one array takes at most so much of the largest block

}  // namespace

SampleBuilder::SampleBuilder(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), edge_ids_(options.edge_ids) {
  for (int t = 0; t < dataset.num_node_types(); ++t) nodes_.emplace_back(dataset.num_nodes(t));
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    const CscView csc = dataset.csc(e);
    if (edge_ids_ && !csc.has_edge_ids) {
      throw Error(ErrorCode::kUnsupported,
                  dataset.folder().string() + " stores no edge ids; import the graph without --no-edge-ids");
    }
    edges_.emplace_back();
    edges_.back().src_type = csc.src_type;
    edges_.back().dst_type = csc.dst_type;
  }
  result_.nodes.resize(nodes_.size());
  result_.edges.resize(edges_.size());
}

void SampleBuilder::begin(const SampleRequest& request) {
  for (Nodes& type : nodes_) {
    std::visit([&](auto& relabel) { relabel.begin_batch(type.local); }, type.relabel);
    type.per_hop.clear();
  }
  for (Edges& type : edges_) {
    type.count = type.hop_begin = 0;
    type.per_hop.clear();
  }
  result_.arrays.clear();
  excluded_ = request.excluded;
  num_positions_ = request.num_seeds();
  seed_locals_.reserve(num_positions_);
  std::size_t at = 0;
  for (const TypedSeeds& entry : request.seeds)
    for (const std::int64_t seed : entry.ids) seed_locals_[at++] = add_node(entry.node_type, seed);
  num_seeds_ = 0;
  for (Nodes& type : nodes_) {
    type.per_hop.push_back(type.local.count);
    num_seeds_ += type.local.count;
  }
}

std::uint32_t SampleBuilder::add_node(int node_type, std::int64_t dataset_id) {
  if (node_type < 0 || node_type >= static_cast<int>(nodes_.size()))
    throw Error(ErrorCode::kInvalid, fmt::format("a sampler added a node of type {}; there are {} types",
                                                 node_type, nodes_.size()));
  Nodes& type = nodes_[node_type];
  if (dataset_id < 0 || dataset_id >= type.count) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("a sampler added node {} of type '{}', which has {} nodes", dataset_id,
                            dataset_.meta().node_types[node_type].name, type.count));
  }
  std::uint32_t local = 0;
  std::visit(
      [&](auto& relabel) {
        relabel.make_room(type.local, 1);
        typename std::decay_t<decltype(relabel)>::Inserter inserter(relabel, type.local, &local);
        inserter.insert(static_cast<std::uint64_t>(dataset_id), 0);
        inserter.close();
      },
      type.relabel);
  return local;
}

void SampleBuilder::add_edge(int edge_type, std::uint32_t source, std::uint32_t target, const Row& row,
                             std::uint64_t i) {
  if (edge_type < 0 || edge_type >= static_cast<int>(edges_.size()))
    throw Error(ErrorCode::kInvalid, fmt::format("a sampler added an edge of type {}; there are {} types",
                                                 edge_type, edges_.size()));
  Edges& type = edges_[edge_type];
  if (row.edge_type != edge_type) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("a sampler added an edge of type '{}' by a row of type '{}'",
                            dataset_.meta().edge_types[edge_type].folder(),
                            row.edge_type >= 0 && row.edge_type < static_cast<int>(edges_.size())
                                ? dataset_.meta().edge_types[row.edge_type].folder()
                                : "none"));
  }
  if (source >= nodes_[type.src_type].local.count || target >= nodes_[type.dst_type].local.count ||
      i >= row.degree) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("a sampler added an edge of type '{}' between nodes {} and {} or with neighbour "
                            "{} of {}, which it does not have",
                            dataset_.meta().edge_types[edge_type].folder(), source, target, i, row.degree));
  }
  if (row.node != nodes_[type.dst_type].local.ids[target] ||
      row.neighbor(i) != nodes_[type.src_type].local.ids[source]) {
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "a sampler added an edge of type '{}' from node {} to node {} (dataset ids) by a row of node {}, "
            "whose neighbour {} is node {}",
            dataset_.meta().edge_types[edge_type].folder(), nodes_[type.src_type].local.ids[source],
            nodes_[type.dst_type].local.ids[target], row.node, i, row.neighbor(i)));
  }
  if (excluded_ && excluded_->contains(edge_type, nodes_[type.src_type].local.ids[source],
                                       nodes_[type.dst_type].local.ids[target])) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a sampler added an edge of type '{}' that the batch excludes; let it read rows "
                            "with SampleRequest::excluded (core/sampler/row_reader.h), or exclude none",
                            dataset_.meta().edge_types[edge_type].folder()));
  }
  const std::size_t at = type.count++;
  type.sources.reserve(type.count);
  type.targets.reserve(type.count);
  type.positions.reserve(type.count);
  type.sources[at] = source;
  type.targets[at] = target;
  type.positions[at] = row.position(i);
  if (!edge_ids_) return;
  type.ids.reserve(type.count);
  type.ids[at] = row.edge_id(i);
}

void SampleBuilder::end_hop() {
  for (Nodes& type : nodes_) {
    std::int64_t before = 0;
    for (const std::int64_t count : type.per_hop) before += count;
    type.per_hop.push_back(type.local.count - before);
  }
  for (Edges& type : edges_) {
    group_by_target(type);
    type.per_hop.push_back(static_cast<std::int64_t>(type.count - type.hop_begin));
    type.hop_begin = type.count;
  }
}

void SampleBuilder::group_by_target(Edges& edges) {
  const std::size_t begin = edges.hop_begin, count = edges.count - begin;
  const std::uint32_t* targets = edges.targets.data() + begin;
  if (std::is_sorted(targets, targets + count)) return;
  order_.reserve(count);
  permuted_.reserve(count);
  // Target above, position below: equal targets keep their order, and nothing is allocated.
  for (std::size_t i = 0; i < count; ++i) order_[i] = std::uint64_t{targets[i]} << 32 | i;
  std::sort(order_.data(), order_.data() + count);
  permute(edges.sources, begin, count);
  permute(edges.targets, begin, count);
  permute(edges.positions, begin, count);
  if (edge_ids_) permute(edges.ids, begin, count);
}

template <class T>
void SampleBuilder::permute(ScratchArray<T>& values, std::size_t begin, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    permuted_[i] = static_cast<std::uint64_t>(values[begin + static_cast<std::uint32_t>(order_[i])]);
  for (std::size_t i = 0; i < count; ++i) values[begin + i] = static_cast<T>(permuted_[i]);
}

std::span<std::int64_t> SampleBuilder::add_array(const ArraySpec& spec) {
  const std::size_t number = result_.arrays.size();
  if (arrays_.size() <= number) arrays_.emplace_back();
  if (!spec.shape.valid())
    throw Error(ErrorCode::kInvalid,
                fmt::format("a sampler added array '{}' of a shape that cannot be", spec.name));
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < spec.shape.size(); ++d) elements = saturating_product(elements, spec.shape[d]);
  if (elements > static_cast<std::int64_t>(kMaxBlockBytes / sizeof(std::int64_t)) / kMaxArrayShare)
    throw Error(ErrorCode::kInvalid,
                fmt::format("a sampler added array '{}' of {} elements, which no batch can hold", spec.name,
                            elements));
  const auto size = static_cast<std::size_t>(elements);
  arrays_[number].reserve(size);
  std::fill_n(arrays_[number].data(), size, 0);
  result_.arrays.push_back({.spec = spec, .values = {arrays_[number].data(), size}});
  return {arrays_[number].data(), size};
}

const Sample& SampleBuilder::finish() {
  const auto require_told = [](const std::vector<std::int64_t>& per_hop, std::size_t count,
                               const char* what) {
    std::int64_t told = 0;
    for (const std::int64_t n : per_hop) told += n;
    if (told != static_cast<std::int64_t>(count))
      throw Error(ErrorCode::kInvalid, fmt::format("a sampler added {} {} behind its last end_hop()",
                                                   static_cast<std::int64_t>(count) - told, what));
  };
  for (const Nodes& type : nodes_) require_told(type.per_hop, type.local.count, "nodes");
  for (const Edges& type : edges_) require_told(type.per_hop, type.count, "edges");
  for (std::size_t t = 0; t < nodes_.size(); ++t) {
    const Nodes& type = nodes_[t];
    result_.nodes[t] = {.dataset_ids = {type.local.ids.data(), type.local.count},
                        .original_ids = {},
                        .per_hop = type.per_hop,
                        .trees = {}};
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const Edges& type = edges_[e];
    result_.edges[e] = {.sources = {type.sources.data(), type.count},
                        .per_dst = {},
                        .targets = {type.targets.data(), type.count},
                        .edge_ids = {type.ids.data(), edge_ids_ ? type.count : 0},
                        .positions = {type.positions.data(), type.count},
                        .per_hop = type.per_hop};
  }
  result_.num_seeds = num_seeds_;
  const bool repeats = static_cast<std::size_t>(num_seeds_) < num_positions_;
  result_.seed_index = {seed_locals_.data(), repeats ? num_positions_ : 0};
  return result_;
}

std::size_t SampleBuilder::scratch_bytes() const {
  std::size_t bytes = seed_locals_.bytes() + order_.bytes() + permuted_.bytes();
  for (const ScratchArray<std::int64_t>& array : arrays_) bytes += array.bytes();
  for (const Nodes& type : nodes_) {
    bytes += type.local.ids.bytes();
    bytes += std::visit([](const auto& relabel) { return relabel.bytes(); }, type.relabel);
  }
  for (const Edges& type : edges_)
    bytes += type.sources.bytes() + type.targets.bytes() + type.positions.bytes() + type.ids.bytes();
  return bytes;
}

std::size_t SampleBuilder::max_scratch_bytes(const SampleBounds& bounds) const {
  const auto array = [](std::int64_t count, std::size_t size) {
    return hopfeed::max_scratch_bytes(static_cast<std::size_t>(count) * size);
  };
  std::size_t bytes = array(bounds.seeds, sizeof(std::uint32_t));
  for (const ArraySpec& spec : bounds.arrays) {
    std::int64_t size = 1;
    for (std::size_t d = 0; d < spec.shape.size(); ++d) size = saturating_product(size, spec.shape[d]);
    bytes += array(size, sizeof(std::int64_t));
  }
  for (std::size_t t = 0; t < nodes_.size(); ++t) {
    const auto count = static_cast<std::size_t>(bounds.nodes[t]) + 1;
    bytes += array(bounds.nodes[t] + 2, sizeof(std::int64_t));
    bytes += std::visit([&](const auto& relabel) { return relabel.max_bytes(count); }, nodes_[t].relabel);
  }
  std::int64_t largest = 0;
  for (const std::int64_t edges : bounds.edges) {
    bytes +=
        2 * array(edges, sizeof(std::uint32_t)) + (edge_ids_ ? 2 : 1) * array(edges, sizeof(std::int64_t));
    largest = std::max(largest, edges);
  }
  return bytes + 2 * array(largest, sizeof(std::uint64_t));
}

}  // namespace hopfeed
