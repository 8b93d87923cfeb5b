// See block_arrays.h.
#include "core/maker/block_arrays.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "core/base/error.h"
#include "core/batch/field_names.h"

namespace hopfeed {

namespace field = batch_field;

void BlockArrays::Places::clear() {
  for (std::vector<int>* list : {&n_id, &dataset_id, &num_sampled_nodes, &batch, &edge_index, &e_id,
                                 &num_sampled_edges, &sampled, &features, &held})
    list->clear();
  seeds = {};
}

BlockArrays::BlockArrays(const Dataset& dataset, const BatchOptions& options, const SeedFields& seeds,
                         const BatchFeatures& features, std::size_t hops)
    : dataset_(dataset),
      options_(options),
      seeds_(seeds),
      features_(features),
      hops_(static_cast<std::int64_t>(hops)),
      options_hash_(options.hash()) {
  const std::string& hex = dataset.meta().fingerprint;  // 32 digits, checked by parse_meta
  std::from_chars(hex.data(), hex.data() + 16, fingerprint_[0], 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, fingerprint_[1], 16);
}

void BlockArrays::count(const Sample& sample, const BatchKey& key, Counts& counts) {
  counts.of.nodes.clear();
  counts.of.edges.clear();
  counts.seeds = {.positions = key.count, .seeds_repeat = !sample.seed_index.empty()};
  for (const SampledNodes& nodes : sample.nodes) counts.of.nodes.push_back(std::ssize(nodes.dataset_ids));
  for (const SampledEdges& edges : sample.edges) counts.of.edges.push_back(std::ssize(edges.sources));
  counts.of.arrays.resize(sample.arrays.size());  // whose names keep their memory
  for (std::size_t a = 0; a < sample.arrays.size(); ++a) counts.of.arrays[a] = sample.arrays[a].spec;
}

void BlockArrays::lay_out(const Counts& counts, BlockWriter& out, Places& at) const {
  at.clear();
  out.clear();
  for (int t = 0; t < dataset_.num_node_types(); ++t) {
    at.n_id.push_back(
        out.add({.name = field::kNId, .store = Store::kNode, .type = t, .shape = {counts.of.nodes[t]}}));
    if (options_.dataset_ids)
      at.dataset_id.push_back(out.add(
          {.name = field::kDatasetId, .store = Store::kNode, .type = t, .shape = {counts.of.nodes[t]}}));
    if (options_.hops_told())
      at.num_sampled_nodes.push_back(
          out.add({.name = field::kNumSampledNodes, .store = Store::kNode, .type = t, .shape = {hops_ + 1}}));
    if (options_.trees())
      at.batch.push_back(
          out.add({.name = field::kBatch, .store = Store::kNode, .type = t, .shape = {counts.of.nodes[t]}}));
    seeds_.lay_out(Store::kNode, t, counts.seeds, out, at.seeds);
  }
  for (int e = 0; e < dataset_.num_edge_types(); ++e) {
    at.edge_index.push_back(out.add(
        {.name = field::kEdgeIndex, .store = Store::kEdge, .type = e, .shape = {2, counts.of.edges[e]}}));
    if (options_.hops_told())
      at.num_sampled_edges.push_back(
          out.add({.name = field::kNumSampledEdges, .store = Store::kEdge, .type = e, .shape = {hops_}}));
    if (options_.edge_ids)
      at.e_id.push_back(
          out.add({.name = field::kEId, .store = Store::kEdge, .type = e, .shape = {counts.of.edges[e]}}));
    seeds_.lay_out(Store::kEdge, e, counts.seeds, out, at.seeds);
  }
  for (const ArraySpec& array : counts.of.arrays)
    at.sampled.push_back(
        out.add({.name = array.name, .store = array.store, .type = array.type, .shape = array.shape}));
  features_.lay_out(counts.feature_rows, out, at.features);
}

BlockHeader BlockArrays::header(const BatchKey& key) const {
  return {.fingerprint = {fingerprint_[0], fingerprint_[1]},
          .options_hash = options_hash_,
          .key = key,
          .num_node_types = static_cast<std::uint16_t>(dataset_.num_node_types()),
          .num_edge_types = static_cast<std::uint16_t>(dataset_.num_edge_types())};
}

// Attributes bear the names that users gave them: n_id, say.
void BlockArrays::require_names_of_their_own(const Counts& most) const {
  BlockWriter layout;
  Places at;
  lay_out(most, layout, at);
  const BlockEntry* twice = layout.repeated();
  if (twice == nullptr) return;
  const DatasetMeta& meta = dataset_.meta();
  const std::string whose = twice->store == static_cast<std::uint16_t>(Store::kNode)
                                ? " of node type '" + meta.node_types[twice->type].name + "'"
                            : twice->store == static_cast<std::uint16_t>(Store::kEdge)
                                ? " of edge type '" + meta.edge_types[twice->type].folder() + "'"
                                : "";
  throw Error(ErrorCode::kInvalid,
              fmt::format("attribute '{}'{} has the name of a field that the batch has already; gather "
                          "others (attrs, {}), or import it under "
                          "another name",
                          twice->name, whose, marked("edge_attrs")));
}

}  // namespace hopfeed
