// See batch_maker.h. Fields and their order in the block are the table of docs/batch.md.
#include "core/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "core/block_writer.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/neighbor_sampler.h"
#include "core/row_gather.h"

namespace hopfeed {
namespace {

// How many nodes and edges of each type a batch has: all that its layout depends on.
struct Counts {
  std::vector<std::int64_t> nodes, edges;
  std::int64_t positions = 0;  // seeds with repeats
  bool seeds_repeat = false;
};

void fill_edge_index(const SampledEdges& edges, std::int64_t* out) {
  std::int64_t* sources = out;
  for (std::uint32_t source : edges.sources) *sources++ = source;
  std::int64_t* targets = out + edges.sources.size();
  for (std::size_t dst = 0; dst < edges.per_dst.size(); ++dst)
    targets = std::fill_n(targets, edges.per_dst[dst], static_cast<std::int64_t>(dst));
}

}  // namespace

struct BatchMaker::Impl {
  struct AttrSource {
    int node_type;
    std::string name;
    std::vector<std::int64_t> row_shape;
    AttrView view;
  };
  // Where each array of the current layout is. Reused from batch to batch, as everything here.
  struct Arrays {
    std::vector<int> n_id, num_sampled_nodes, edge_index, e_id, num_sampled_edges, attrs;
    int input_id = -1, batch_size = -1, seed_index = -1;
    void clear() {
      for (std::vector<int>* list :
           {&n_id, &num_sampled_nodes, &edge_index, &e_id, &num_sampled_edges, &attrs})
        list->clear();
      input_id = batch_size = seed_index = -1;
    }
  };

  const Dataset& dataset;
  const SeedList& seeds;
  const BatchOptions options;
  const std::uint64_t options_hash;
  std::uint64_t fingerprint[2];
  NeighborSampler sampler;
  const std::size_t tables = sampler.scratch_bytes();  // before its first batch
  std::vector<AttrSource> attrs;
  std::vector<int> rows_of;  // per node type: an edge type whose row records name its original ids, or -1

  // The batch under way.
  BatchKey key;
  SeedList::Positions positions;
  std::vector<std::int64_t> seed_ids;
  const Sample* sample = nullptr;
  BlockWriter writer;
  Counts counts;
  Arrays arrays;

  Impl(const Dataset& data, const SeedList& list, const BatchOptions& opts)
      : dataset(data), seeds(list), options(opts), options_hash(opts.hash()), sampler(data, opts) {
    const std::string& hex = data.meta().fingerprint;  // 32 digits, checked by parse_meta
    std::from_chars(hex.data(), hex.data() + 16, fingerprint[0], 16);
    std::from_chars(hex.data() + 16, hex.data() + 32, fingerprint[1], 16);
    rows_of.assign(static_cast<std::size_t>(data.num_node_types()), -1);
    for (int e = data.num_edge_types() - 1; e >= 0; --e)
      rows_of[static_cast<std::size_t>(data.csc(e).dst_type)] = e;
    for (int t = 0; t < data.num_node_types(); ++t) {
      if (rows_of[t] < 0 && !options.dataset_ids) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("no edge type ends at node type '{}', so its original ids are not stored; "
                                "add reverse edges or ask for dataset ids",
                                data.meta().node_types[t].name));
      }
    }
    find_attrs();
  }

  void find_attrs() {
    std::vector<std::string> missing = options.attrs.value_or(std::vector<std::string>{});
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      for (const AttrMeta& attr : dataset.meta().node_types[t].attrs) {
        if (options.attrs &&
            std::find(options.attrs->begin(), options.attrs->end(), attr.name) == options.attrs->end())
          continue;
        attrs.push_back(
            {.node_type = t, .name = attr.name, .row_shape = attr.shape, .view = dataset.attr(t, attr.name)});
        std::erase(missing, attr.name);
      }
    }
    if (!missing.empty()) dataset.attr(0, missing.front());  // throws kNotFound and lists what there is
  }

  void lay_out(const Counts& counts, BlockWriter& out, Arrays& at) const {
    at.clear();
    out.clear();
    const std::int64_t hops = static_cast<std::int64_t>(options.fanouts.size());
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      at.n_id.push_back(
          out.add({.name = "n_id", .store = Store::kNode, .type = t, .shape = {counts.nodes[t]}}));
      at.num_sampled_nodes.push_back(
          out.add({.name = "num_sampled_nodes", .store = Store::kNode, .type = t, .shape = {hops + 1}}));
      if (t != seeds.node_type()) continue;
      at.input_id =
          out.add({.name = "input_id", .store = Store::kNode, .type = t, .shape = {counts.positions}});
      at.batch_size = out.add({.name = "batch_size", .store = Store::kNode, .type = t, .shape = {}});
      if (counts.seeds_repeat)
        at.seed_index =
            out.add({.name = "seed_index", .store = Store::kNode, .type = t, .shape = {counts.positions}});
    }
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      at.edge_index.push_back(
          out.add({.name = "edge_index", .store = Store::kEdge, .type = e, .shape = {2, counts.edges[e]}}));
      at.num_sampled_edges.push_back(
          out.add({.name = "num_sampled_edges", .store = Store::kEdge, .type = e, .shape = {hops}}));
      if (options.edge_ids)
        at.e_id.push_back(
            out.add({.name = "e_id", .store = Store::kEdge, .type = e, .shape = {counts.edges[e]}}));
    }
    for (const AttrSource& attr : attrs) {
      BlockShape shape{counts.nodes[attr.node_type]};
      shape.append(attr.row_shape);
      at.attrs.push_back(out.add({.name = attr.name,
                                  .store = Store::kNode,
                                  .type = attr.node_type,
                                  .element = attr.view.type,
                                  .shape = shape}));
    }
  }

  std::size_t run(const BatchKey& batch_key) {
    key = batch_key;
    seeds.seeds(key, positions);
    seed_ids.resize(positions.original_id.size());
    dataset.dataset_ids(seeds.node_type(), positions.original_id, seed_ids);
    sample = &sampler.sample({.key = key, .seed_type = seeds.node_type(), .seeds = seed_ids});
    counts.nodes.clear();
    counts.edges.clear();
    counts.positions = key.count;
    counts.seeds_repeat = !sample->seed_index.empty();
    for (const SampledNodes& nodes : sample->nodes)
      counts.nodes.push_back(static_cast<std::int64_t>(nodes.dataset_ids.size()));
    for (const SampledEdges& edges : sample->edges)
      counts.edges.push_back(static_cast<std::int64_t>(edges.sources.size()));
    lay_out(counts, writer, arrays);
    return writer.bytes();
  }

  void write(std::span<std::byte> block) {
    writer.begin({.fingerprint = {fingerprint[0], fingerprint[1]},
                  .options_hash = options_hash,
                  .key = key,
                  .num_node_types = static_cast<std::uint16_t>(dataset.num_node_types()),
                  .num_edge_types = static_cast<std::uint16_t>(dataset.num_edge_types())},
                 block);
    for (int t = 0; t < dataset.num_node_types(); ++t) write_nodes(t);
    std::ranges::copy(positions.index, writer.data<std::int64_t>(arrays.input_id));
    *writer.data<std::int64_t>(arrays.batch_size) = sample->num_seeds;
    if (arrays.seed_index >= 0)
      std::ranges::copy(sample->seed_index, writer.data<std::int64_t>(arrays.seed_index));
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      const SampledEdges& edges = sample->edges[e];
      fill_edge_index(edges, writer.data<std::int64_t>(arrays.edge_index[e]));
      std::ranges::copy(edges.per_hop, writer.data<std::int64_t>(arrays.num_sampled_edges[e]));
      if (options.edge_ids) std::ranges::copy(edges.edge_ids, writer.data<std::int64_t>(arrays.e_id[e]));
    }
    for (std::size_t a = 0; a < attrs.size(); ++a) {
      gather_rows(attrs[a].view, sample->nodes[attrs[a].node_type].dataset_ids,
                  writer.data<std::byte>(arrays.attrs[a]));
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
      gather_original_ids(dataset.csc(rows_of[t]), nodes.dataset_ids.subspan(known), out + known);
    }
    std::ranges::copy(nodes.per_hop, writer.data<std::int64_t>(arrays.num_sampled_nodes[t]));
  }

  // The largest counts that the fanouts allow: a frontier never exceeds the nodes of its type, and each node is expanded once.
  Counts worst_case(std::int64_t batch_size) const {
    Counts counts{.nodes = std::vector<std::int64_t>(dataset.num_node_types(), 0),
                  .edges = std::vector<std::int64_t>(dataset.num_edge_types(), 0),
                  .positions = std::min(batch_size, seeds.size()),
                  .seeds_repeat = true};
    std::vector<std::int64_t> frontier(counts.nodes.size(), 0);
    frontier[seeds.node_type()] = std::min(counts.positions, dataset.num_nodes(seeds.node_type()));
    for (std::size_t t = 0; t < frontier.size(); ++t) counts.nodes[t] = frontier[t];
    for (std::int64_t fanout : options.fanouts) {
      std::vector<std::int64_t> next(frontier.size(), 0);
      for (int e = 0; e < dataset.num_edge_types(); ++e) {
        const CscView csc = dataset.csc(e);
        std::int64_t edges = csc.num_edges;
        if (fanout >= 0)
          edges = options.replace ? frontier[csc.dst_type] * fanout
                                  : std::min(edges, frontier[csc.dst_type] * fanout);
        counts.edges[e] += edges;
        if (!options.replace) counts.edges[e] = std::min(counts.edges[e], csc.num_edges);
        next[csc.src_type] = std::min(next[csc.src_type] + edges, csc.num_src_nodes);
      }
      frontier = next;
      for (std::size_t t = 0; t < frontier.size(); ++t)
        counts.nodes[t] = std::min(counts.nodes[t] + frontier[t], dataset.num_nodes(static_cast<int>(t)));
    }
    return counts;
  }
};

BatchMaker::BatchMaker(const Dataset& dataset, const SeedList& seeds, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(dataset, seeds, options)) {}
BatchMaker::~BatchMaker() = default;

std::size_t BatchMaker::sample(const BatchKey& key) { return impl_->run(key); }
void BatchMaker::write(std::span<std::byte> block) { impl_->write(block); }

std::size_t BatchMaker::max_block_bytes(std::int64_t batch_size) const {
  if (batch_size < 1 || batch_size > kMaxBatchSize)
    throw Error(ErrorCode::kInvalid,
                fmt::format("batch size {} is not between 1 and {}", batch_size, kMaxBatchSize));
  BlockWriter layout;
  Impl::Arrays arrays;
  impl_->lay_out(impl_->worst_case(batch_size), layout, arrays);
  return layout.bytes();
}

BatchMaker::Scratch BatchMaker::scratch(std::int64_t batch_size) const {
  const auto counts = impl_->worst_case(batch_size);
  const std::size_t seeds =
      6 * sizeof(std::int64_t) * static_cast<std::size_t>(counts.positions);  // three vectors
  return {.tables = impl_->tables,
          .at_most = seeds + impl_->sampler.max_scratch_bytes(
                                 {.nodes = counts.nodes, .edges = counts.edges, .seeds = counts.positions})};
}

}  // namespace hopfeed
