// See batch_maker.h. Fields and their order in the block are the table of docs/batch.md.
#include "core/maker/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/block_writer.h"
#include "core/batch/field_names.h"
#include "core/dataset/row_gather.h"
#include "core/sampler/sampler_registry.h"
#include "core/seeds/link_fields.h"
#include "core/seeds/node_fields.h"

namespace hopfeed {
namespace {

namespace field = batch_field;

// All that the layout of a batch depends on.
struct Counts {
  SampleBounds of;
  SeedRoom seeds;
};

void fill_edge_index(const SampledEdges& edges, std::int64_t* out) {
  std::int64_t* sources = out;
  for (std::uint32_t source : edges.sources) *sources++ = source;
  std::int64_t* targets = out + edges.sources.size();
  if (!edges.targets.empty()) std::ranges::copy(edges.targets, targets);
  for (std::size_t dst = 0; dst < edges.per_dst.size(); ++dst)
    targets = std::fill_n(targets, edges.per_dst[dst], static_cast<std::int64_t>(dst));
}

}  // namespace

struct BatchMaker::Impl {
  struct AttrSource {
    int type;  // of nodes or edges
    std::string name;
    std::vector<std::int64_t> row_shape;
    AttrView view;
  };
  // Where each array of the current layout is. Reused from batch to batch, as everything here.
  struct Arrays {
    std::vector<int> n_id, num_sampled_nodes, batch, edge_index, e_id, num_sampled_edges, sampled, attrs,
        edge_attrs;
    SeedArrays seeds;
    void clear() {
      for (std::vector<int>* list : {&n_id, &num_sampled_nodes, &batch, &edge_index, &e_id,
                                     &num_sampled_edges, &sampled, &attrs, &edge_attrs})
        list->clear();
      seeds = {};
    }
  };

  const Dataset& dataset;
  const BatchOptions options;
  const std::uint64_t options_hash;
  std::uint64_t fingerprint[2];
  const std::unique_ptr<Sampler> sampler;
  const std::unique_ptr<SeedFields> seeds;
  std::size_t tables = 0;  // what the sampler may hold whatever its batches are
  std::vector<AttrSource> attrs, edge_attrs;

  // The batch under way.
  BatchKey key;
  const Sample* sample = nullptr;
  struct Gather {
    const AttrView& view;
    std::span<const std::int64_t> ids;
    std::byte* out;
    std::size_t bytes() const { return ids.size() * static_cast<std::size_t>(view.row_bytes); }
  };
  std::vector<Gather> gathers;
  BlockWriter writer;
  Counts counts;
  Arrays arrays;

  template <class Fields, class List>
  Impl(std::in_place_type_t<Fields>, const Dataset& data, const List& list, const BatchOptions& opts)
      : dataset(data),
        options(opts),
        options_hash(opts.hash()),
        sampler(make_sampler(data, opts)),
        seeds(std::make_unique<Fields>(data, list, opts)) {
    const std::string& hex = data.meta().fingerprint;  // 32 digits, checked by parse_meta
    std::from_chars(hex.data(), hex.data() + 16, fingerprint[0], 16);
    std::from_chars(hex.data() + 16, hex.data() + 32, fingerprint[1], 16);
    find_attrs();
    find_edge_attrs();
    require_names_of_their_own();
    tables = sampler->scratch_bytes() + sampler->later_table_bytes() + seeds->table_bytes();
  }

  void find_edge_attrs() {
    for (const std::string& name : options.edge_attrs) {
      const std::size_t before = edge_attrs.size();
      for (int e = 0; e < dataset.num_edge_types(); ++e) {
        for (const AttrMeta& attr : dataset.meta().edge_types[e].attrs) {
          if (attr.name != name) continue;
          edge_attrs.push_back(
              {.type = e, .name = name, .row_shape = attr.shape, .view = dataset.edge_attr(e, name)});
        }
      }
      if (edge_attrs.size() == before && dataset.num_edge_types() > 0)
        dataset.edge_attr(0, name);  // throws kNotFound and lists what there is
    }
  }

  void find_attrs() {
    std::vector<std::string> missing = options.attrs.value_or(std::vector<std::string>{});
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      for (const AttrMeta& attr : dataset.meta().node_types[t].attrs) {
        if (options.attrs &&
            std::find(options.attrs->begin(), options.attrs->end(), attr.name) == options.attrs->end())
          continue;
        attrs.push_back(
            {.type = t, .name = attr.name, .row_shape = attr.shape, .view = dataset.attr(t, attr.name)});
        std::erase(missing, attr.name);
      }
    }
    if (!missing.empty()) dataset.attr(0, missing.front());  // throws kNotFound and lists what there is
  }

  // Attributes bear the names that users gave them: n_id, say.
  void require_names_of_their_own() const {
    BlockWriter layout;
    Arrays at;
    lay_out(worst_case(1), layout, at);
    const BlockEntry* twice = layout.repeated();
    if (twice == nullptr) return;
    const DatasetMeta& meta = dataset.meta();
    const std::string whose = twice->store == static_cast<std::uint16_t>(Store::kNode)
                                  ? " of node type '" + meta.node_types[twice->type].name + "'"
                              : twice->store == static_cast<std::uint16_t>(Store::kEdge)
                                  ? " of edge type '" + meta.edge_types[twice->type].folder() + "'"
                                  : "";
    throw Error(ErrorCode::kInvalid,
                fmt::format("attribute '{}'{} has the name of a field that the batch has already; gather "
                            "others (attrs, edge_attrs), or import it under "
                            "another name",
                            twice->name, whose));
  }

  void lay_out(const Counts& counts, BlockWriter& out, Arrays& at) const {
    at.clear();
    out.clear();
    const std::int64_t hops = static_cast<std::int64_t>(sampler->num_hops());
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      at.n_id.push_back(
          out.add({.name = field::kNId, .store = Store::kNode, .type = t, .shape = {counts.of.nodes[t]}}));
      if (options.hops_told())
        at.num_sampled_nodes.push_back(out.add(
            {.name = field::kNumSampledNodes, .store = Store::kNode, .type = t, .shape = {hops + 1}}));
      if (options.trees())
        at.batch.push_back(out.add(
            {.name = field::kBatch, .store = Store::kNode, .type = t, .shape = {counts.of.nodes[t]}}));
      seeds->lay_out(Store::kNode, t, counts.seeds, out, at.seeds);
    }
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      at.edge_index.push_back(out.add(
          {.name = field::kEdgeIndex, .store = Store::kEdge, .type = e, .shape = {2, counts.of.edges[e]}}));
      if (options.hops_told())
        at.num_sampled_edges.push_back(
            out.add({.name = field::kNumSampledEdges, .store = Store::kEdge, .type = e, .shape = {hops}}));
      if (options.edge_ids)
        at.e_id.push_back(
            out.add({.name = field::kEId, .store = Store::kEdge, .type = e, .shape = {counts.of.edges[e]}}));
      seeds->lay_out(Store::kEdge, e, counts.seeds, out, at.seeds);
    }
    for (const ArraySpec& array : counts.of.arrays)
      at.sampled.push_back(
          out.add({.name = array.name, .store = array.store, .type = array.type, .shape = array.shape}));
    for (const AttrSource& attr : attrs) {
      at.attrs.push_back(add_attr(attr, Store::kNode, counts.of.nodes[attr.type], out));
    }
    for (const AttrSource& attr : edge_attrs)
      at.edge_attrs.push_back(add_attr(attr, Store::kEdge, counts.of.edges[attr.type], out));
  }

  static int add_attr(const AttrSource& attr, Store store, std::int64_t rows, BlockWriter& out) {
    BlockShape shape{rows};
    shape.append(attr.row_shape);
    return out.add(
        {.name = attr.name, .store = store, .type = attr.type, .element = attr.view.type, .shape = shape});
  }

  std::size_t run(const BatchKey& batch_key) {
    key = batch_key;
    const std::span<const TypedSeeds> typed = seeds->seeds(key);
    sample = &sampler->sample({.key = key, .seeds = typed, .excluded = seeds->excluded()});
    counts.of.nodes.clear();
    counts.of.edges.clear();
    counts.seeds = {.positions = key.count, .seeds_repeat = !sample->seed_index.empty()};
    for (const SampledNodes& nodes : sample->nodes)
      counts.of.nodes.push_back(static_cast<std::int64_t>(nodes.dataset_ids.size()));
    for (const SampledEdges& edges : sample->edges)
      counts.of.edges.push_back(static_cast<std::int64_t>(edges.sources.size()));
    counts.of.arrays.resize(sample->arrays.size());  // whose names keep their memory
    for (std::size_t a = 0; a < sample->arrays.size(); ++a) counts.of.arrays[a] = sample->arrays[a].spec;
    lay_out(counts, writer, arrays);
    for (std::size_t a = 0; a < arrays.sampled.size(); ++a)  // its bounds may have told of others
      if (!writer.is_unique(arrays.sampled[a]))
        throw Error(
            ErrorCode::kInvalid,
            fmt::format(
                "sampler '{}' added array '{}', which the batch has already; let it have another name",
                options.sampler, sample->arrays[a].spec.name));
    return writer.bytes();
  }

  void write(std::span<std::byte> block, const std::function<void()>& nearly_done) {
    writer.begin({.fingerprint = {fingerprint[0], fingerprint[1]},
                  .options_hash = options_hash,
                  .key = key,
                  .num_node_types = static_cast<std::uint16_t>(dataset.num_node_types()),
                  .num_edge_types = static_cast<std::uint16_t>(dataset.num_edge_types())},
                 block);
    for (int t = 0; t < dataset.num_node_types(); ++t) write_nodes(t);
    seeds->write(*sample, arrays.seeds, writer);
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      const SampledEdges& edges = sample->edges[e];
      fill_edge_index(edges, writer.data<std::int64_t>(arrays.edge_index[e]));
      if (options.hops_told())
        std::ranges::copy(edges.per_hop, writer.data<std::int64_t>(arrays.num_sampled_edges[e]));
      if (options.edge_ids) std::ranges::copy(edges.edge_ids, writer.data<std::int64_t>(arrays.e_id[e]));
    }
    for (std::size_t a = 0; a < sample->arrays.size(); ++a)
      std::ranges::copy(sample->arrays[a].values, writer.data<std::int64_t>(arrays.sampled[a]));
    gather_attrs(nearly_done);
  }

  void gather_attrs(const std::function<void()>& nearly_done) {
    gathers.clear();
    for (std::size_t a = 0; a < attrs.size(); ++a)
      gathers.push_back(
          {attrs[a].view, sample->nodes[attrs[a].type].dataset_ids, writer.data<std::byte>(arrays.attrs[a])});
    for (std::size_t a = 0; a < edge_attrs.size(); ++a)
      gathers.push_back({edge_attrs[a].view, sample->edges[edge_attrs[a].type].positions,
                         writer.data<std::byte>(arrays.edge_attrs[a])});
    std::size_t left = 0;
    for (const Gather& gather : gathers) left += gather.bytes();
    for (const Gather& gather : gathers) {
      // The rows of it before the last kLastBytes of all, where they end in it.
      std::size_t first_rows = 0;
      if (nearly_done && left > kLastBytes && left - gather.bytes() <= kLastBytes)
        first_rows = (left - kLastBytes) / static_cast<std::size_t>(gather.view.row_bytes);
      gather_rows(gather.view, gather.ids.first(first_rows), gather.out);
      if (first_rows > 0) nearly_done();
      gather_rows(gather.view, gather.ids.subspan(first_rows),
                  gather.out + first_rows * static_cast<std::size_t>(gather.view.row_bytes));
      left -= gather.bytes();
    }
  }

  void write_nodes(int t) {
    const SampledNodes& nodes = sample->nodes[t];
    std::int64_t* out = writer.data<std::int64_t>(arrays.n_id[t]);
    if (options.dataset_ids) {
      std::ranges::copy(nodes.dataset_ids, out);
    } else {
      std::ranges::copy(nodes.original_ids, out);  // those whose rows the sampler has read anyway
      const std::size_t known = nodes.original_ids.size();
      dataset.original_ids(t, nodes.dataset_ids.subspan(known), out + known);
    }
    if (options.trees()) seeds->write_owners(nodes.trees, writer.data<std::int64_t>(arrays.batch[t]));
    if (options.hops_told())
      std::ranges::copy(nodes.per_hop, writer.data<std::int64_t>(arrays.num_sampled_nodes[t]));
  }

  std::int64_t most_positions(std::int64_t batch_size) const { return std::min(batch_size, seeds->size()); }

  Counts worst_case(std::int64_t batch_size) const {
    const std::int64_t positions = most_positions(batch_size);
    return {.of = sampler->bounds(seeds->most_seeds(positions)),
            .seeds = {.positions = positions, .seeds_repeat = true}};
  }
};

BatchMaker::BatchMaker(const Dataset& dataset, const NodeList& seeds, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(std::in_place_type<NodeFields>, dataset, seeds, options)) {}
BatchMaker::BatchMaker(const Dataset& dataset, const LinkList& links, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(std::in_place_type<LinkFields>, dataset, links, options)) {}
BatchMaker::~BatchMaker() = default;

std::size_t BatchMaker::sample(const BatchKey& key) { return impl_->run(key); }
void BatchMaker::write(std::span<std::byte> block, const std::function<void()>& nearly_done) {
  impl_->write(block, nearly_done);
}

std::size_t BatchMaker::max_block_bytes(std::int64_t batch_size) const {
  if (batch_size < 1 || batch_size > kMaxBatchSize)
    throw Error(ErrorCode::kInvalid,
                fmt::format("batch size {} is not between 1 and {}", batch_size, kMaxBatchSize));
  BlockWriter layout;
  Impl::Arrays arrays;
  impl_->lay_out(impl_->worst_case(batch_size), layout, arrays);
  return layout.bytes();
}

std::size_t BatchMaker::scratch_bytes() const {
  return impl_->sampler->scratch_bytes() + impl_->seeds->bytes();
}

BatchMaker::Scratch BatchMaker::scratch(std::int64_t batch_size) const {
  const std::int64_t positions = impl_->most_positions(batch_size);
  return {.tables = impl_->tables,
          .at_most = impl_->seeds->table_bytes() + impl_->seeds->scratch_bytes(positions) +
                     impl_->sampler->max_scratch_bytes(impl_->seeds->most_seeds(positions))};
}

}  // namespace hopfeed
