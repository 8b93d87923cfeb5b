// See induced_subgraph.h.
#include "core/sampler/induced_subgraph.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/dataset/damaged_row.h"
#include "core/dataset/id_at.h"

namespace hopfeed {

InducedSubgraph::InducedSubgraph(std::unique_ptr<Sampler> nodes, const Dataset& dataset,
                                 const BatchOptions& options)
    : sampler_(std::move(nodes)), dataset_(dataset), edge_ids_(options.edge_ids) {
  for (int t = 0; t < dataset.num_node_types(); ++t)
    nodes_.push_back({.relabel = make_relabel(dataset.num_nodes(t)), .local = {}});
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    readers_.emplace_back(dataset, e);
    Edges edges;
    edges.csc = dataset.csc(e);
    if (edge_ids_ && !edges.csc.has_edge_ids)
      throw Error(ErrorCode::kUnsupported,
                  dataset.folder().string() + " stores no edge ids; import the graph without --no-edge-ids");
    for (const AttrMeta& attr : dataset.meta().edge_types[e].attrs)
      edges.positions |= std::ranges::find(options.edge_attrs, attr.name) != options.edge_attrs.end();
    edges_.push_back(std::move(edges));
  }
}

const Sample& InducedSubgraph::sample(const SampleRequest& request) {
  const Sample& sampled = sampler_->sample(request);
  result_ = sampled;
  for (std::size_t t = 0; t < nodes_.size(); ++t) {
    index_nodes(t, sampled.nodes[t].dataset_ids);
    nodes_[t].count = std::ssize(sampled.nodes[t].dataset_ids);
    result_.nodes[t].per_hop = {&nodes_[t].count, 1};
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    Edges& edges = edges_[e];
    try {
      take_edges(edges, static_cast<int>(e), request.excluded);
    } catch (const DamagedRow& damage) {
      throw damage_error(dataset_, static_cast<int>(e), damage);
    }
    result_.edges[e] = {.sources = {edges.sources.data(), edges.count},
                        .per_dst = {edges.per_dst.data(), nodes_[edges.csc.dst_type].local.count},
                        .targets = {},
                        .edge_ids = {edges.edge_ids.data(), edge_ids_ ? edges.count : 0},
                        .positions = {edges.edge_positions.data(), edges.positions ? edges.count : 0},
                        .per_hop = {}};
  }
  return result_;
}

// Local ids are those of the other sampler: nodes come in their order, and none twice.
void InducedSubgraph::index_nodes(std::size_t type, std::span<const std::int64_t> dataset_ids) {
  LocalNodes& local = nodes_[type].local;
  locals_.reserve(dataset_ids.size());
  std::visit(
      [&](auto& relabel) {
        relabel.begin_batch(local);
        relabel.make_room(local, dataset_ids.size());
        typename std::decay_t<decltype(relabel)>::Inserter inserter(relabel, local, locals_.data());
        for (std::size_t i = 0; i < dataset_ids.size(); ++i)
          inserter.insert(static_cast<std::uint64_t>(dataset_ids[i]), i);
        inserter.close();
      },
      nodes_[type].relabel);
}

void InducedSubgraph::take_edges(Edges& edges, int type, const ExcludedEdges* excluded) {
  constexpr std::uint32_t kAhead = 8;
  constexpr std::uint32_t kFetched = 4'096;  // rows that are asked of other machines together
  const LocalNodes& dst = nodes_[edges.csc.dst_type].local;
  const CscView& csc = edges.csc;
  edges.count = 0;
  edges.per_dst.reserve(dst.count);
  const bool excludes = excluded && excluded->any(type);
  const auto place_of = [&](std::uint32_t i) {
    const int part = partition_of(csc.partition_offsets, dst.ids[i]);
    return std::pair(part, dst.ids[i] - csc.partition_offsets[part]);
  };
  const RowReader& reader = readers_[static_cast<std::size_t>(type)];
  std::visit(
      [&](auto& table) {
        for (std::uint32_t i = 0; i < dst.count; ++i) {
          if (i % kFetched == 0)
            reader.fetch({dst.ids.data() + i, std::min<std::size_t>(kFetched, dst.count - i)});
          if (i + 2 * kAhead < dst.count) {  // first the row record, then what it points to
            const auto [part, row] = place_of(i + 2 * kAhead);
            prefetch_line(csc.parts[part].rows + row);
          }
          if (i + kAhead < dst.count) {
            const auto [part, row] = place_of(i + kAhead);
            if (csc.parts[part].rows != nullptr) {
              const auto offset =
                  static_cast<std::uint64_t>(csc.parts[part].rows[row].offset);  // not checked yet
              prefetch_line(
                  reinterpret_cast<const void*>(reinterpret_cast<std::uint64_t>(csc.parts[part].indices) +
                                                offset * element_bytes(csc.index_type)));
            }
          }
          const auto [part, row] = place_of(i);
          const std::size_t before = edges.count;
          const Place place{.part = part,
                            .row = row,
                            .excluded = excludes ? excluded->sources_of(type, dst.ids[i])
                                                 : std::span<const std::int64_t>()};
          if (csc.parts[part].rows == nullptr)
            take_fetched(edges, table, reader.row(dst.ids[i]), place);
          else if (csc.index_type == ElementType::kInt32)
            take_row<std::int32_t>(edges, table, place);
          else
            take_row<std::int64_t>(edges, table, place);
          edges.per_dst[i] = static_cast<std::uint32_t>(edges.count - before);
        }
      },
      nodes_[csc.src_type].relabel);
}

template <class Index, class Table>
void InducedSubgraph::take_row(Edges& edges, Table& table, const Place& place) {
  constexpr std::int64_t kChunk = 64;  // looked up together
  const CscPart& part = edges.csc.parts[place.part];
  const std::int64_t begin = part.rows[place.row].offset, end = part.rows[place.row + 1].offset;
  if (begin < 0 || begin > end || end > part.num_edges)
    throw DamagedRow{DamagedRow::What::kOffsets, place.part, place.row, 0};
  const auto* indices = static_cast<const Index*>(part.indices);
  const auto num_src = static_cast<std::uint64_t>(edges.csc.num_src_nodes);
  for (std::int64_t first = begin; first < end; first += kChunk) {
    const std::int64_t last = std::min(first + kChunk, end);
    for (std::int64_t at = first; at < last; ++at) {
      const auto source = static_cast<std::uint64_t>(std::int64_t{indices[at]});
      if (source >= num_src)
        throw DamagedRow{DamagedRow::What::kSource, 0, 0, static_cast<std::int64_t>(source)};
      table.prefetch(source);
    }
    edges.sources.reserve(edges.count + kChunk);
    if (edge_ids_) edges.edge_ids.reserve(edges.count + kChunk);
    if (edges.positions) edges.edge_positions.reserve(edges.count + kChunk);
    for (std::int64_t at = first; at < last; ++at) {
      const std::uint32_t local = table.find(static_cast<std::uint64_t>(std::int64_t{indices[at]}));
      if (local == kAbsent) continue;
      if (!place.excluded.empty() && std::ranges::binary_search(place.excluded, std::int64_t{indices[at]}))
        continue;
      edges.sources[edges.count] = local;
      if (edge_ids_) edges.edge_ids[edges.count] = id_at(part.edge_ids, edges.csc.edge_id_type, at);
      if (edges.positions) edges.edge_positions[edges.count] = part.first_edge + at;
      ++edges.count;
    }
  }
}

// Takes the edges of a row that another machine has.
template <class Table>
void InducedSubgraph::take_fetched(Edges& edges, Table& table, const Row& row, const Place& place) {
  const auto num_src = static_cast<std::uint64_t>(edges.csc.num_src_nodes);
  edges.sources.reserve(edges.count + row.degree);
  if (edge_ids_) edges.edge_ids.reserve(edges.count + row.degree);
  if (edges.positions) edges.edge_positions.reserve(edges.count + row.degree);
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    const std::int64_t source = row.neighbor(i);
    if (static_cast<std::uint64_t>(source) >= num_src)
      throw DamagedRow{DamagedRow::What::kSource, 0, 0, source};
    const std::uint32_t local = table.find(static_cast<std::uint64_t>(source));
    if (local == kAbsent || std::ranges::binary_search(place.excluded, source)) continue;
    edges.sources[edges.count] = local;
    if (edge_ids_) edges.edge_ids[edges.count] = row.edge_id(i);
    if (edges.positions) edges.edge_positions[edges.count] = row.position(i);
    ++edges.count;
  }
}

SampleBounds InducedSubgraph::bounds(SeedCounts seeds) const {
  SampleBounds bounds = sampler_->bounds(seeds);
  for (std::size_t e = 0; e < edges_.size(); ++e) bounds.edges[e] = edges_[e].csc.num_edges;
  return bounds;
}

std::size_t InducedSubgraph::scratch_bytes() const {
  std::size_t bytes = sampler_->scratch_bytes() + locals_.bytes();
  for (const Nodes& type : nodes_)
    bytes += type.local.ids.bytes() +
             std::visit([](const auto& relabel) { return relabel.bytes(); }, type.relabel);
  for (const Edges& type : edges_)
    bytes +=
        type.sources.bytes() + type.per_dst.bytes() + type.edge_ids.bytes() + type.edge_positions.bytes();
  return bytes;
}

std::size_t InducedSubgraph::max_scratch_bytes(SeedCounts seeds) const {
  const SampleBounds bounds = this->bounds(seeds);
  std::size_t bytes = sampler_->max_scratch_bytes(seeds), most_nodes = 0;
  const auto array = [](std::size_t count, std::size_t size) {
    return hopfeed::max_scratch_bytes((count + 64) * size);
  };
  for (std::size_t t = 0; t < nodes_.size(); ++t) {
    const auto count = static_cast<std::size_t>(bounds.nodes[t]);
    most_nodes = std::max(most_nodes, count);
    bytes += array(count, sizeof(std::int64_t)) +
             std::visit([&](const auto& relabel) { return relabel.max_bytes(count); }, nodes_[t].relabel);
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const auto count = static_cast<std::size_t>(bounds.edges[e]);
    bytes += array(count, sizeof(std::uint32_t)) + (edge_ids_ ? array(count, sizeof(std::int64_t)) : 0) +
             (edges_[e].positions ? array(count, sizeof(std::int64_t)) : 0) +
             array(static_cast<std::size_t>(bounds.nodes[edges_[e].csc.dst_type]), sizeof(std::uint32_t));
  }
  return bytes + array(most_nodes, sizeof(std::uint32_t));
}

}  // namespace hopfeed
