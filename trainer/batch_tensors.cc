// See batch_tensors.h.
#include "trainer/batch_tensors.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/batch/field_names.h"
#include "trainer/dequantised.h"
#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

/// Empty where the batch has no such array.
std::vector<std::int64_t> find_counts(const BatchView& view, const char* name, Store store, int type) {
  const ArrayView array = view.find(name, store, type);
  if (array.name.empty()) return {};
  const auto values = array.as<std::int64_t>();
  return {values.begin(), values.end()};
}

using Owner = std::shared_ptr<const void>;

constexpr std::string_view kEdgeLabelIndex = "edge_label_index", kEdgeLabel = "edge_label",
                           kEdgeLabelTime = "edge_label_time", kSrcIndex = "src_index",
                           kDstPosIndex = "dst_pos_index", kDstNegIndex = "dst_neg_index";

torch::Tensor to_tensor(const ArrayView& array, std::shared_ptr<const void> owner) {
  if (has_scale(array.type)) {
    const QuantisedRows rows = quantised_rows(array);
    return dequantised(rows, {array.shape.data(), array.shape.size()});
  }
  void* data = const_cast<std::byte*>(
      array.bytes.data());  // from_blob takes no const; nobody writes (batch_tensors.h)
  const c10::IntArrayRef shape(array.shape.data(), array.shape.size());
  return torch::from_blob(
      data, shape, [owner = std::move(owner)](void*) {}, torch::TensorOptions(dtype_of(array.type)));
}

/// Undefined where the batch has no such array.
torch::Tensor find(const BatchView& view, std::string_view name, Store store, int type, const Owner& owner) {
  const ArrayView array = view.find(name, store, type);
  return array.name.empty() ? torch::Tensor() : to_tensor(array, owner);
}

/// What a type has beside `fields`, which have a place of their own in its struct: others of edges than of
/// nodes, so that an edge attribute may be called x.
std::map<std::string, torch::Tensor> other_arrays(const BatchView& view, Store store, int type,
                                                  std::initializer_list<std::string_view> fields,
                                                  const Owner& owner) {
  std::map<std::string, torch::Tensor> result;
  for (int i = 0; i < view.num_arrays(); ++i) {
    const ArrayView array = view.array(i);
    if (array.store != store || array.type_number != type) continue;
    if (std::ranges::find(fields, array.name) == fields.end())
      result.emplace(array.name, to_tensor(array, owner));
  }
  return result;
}

NodeTensors node_tensors(const BatchView& view, int type, const Owner& owner) {
  NodeTensors nodes{
      .x = find(view, "x", Store::kNode, type, owner),
      .y = find(view, "y", Store::kNode, type, owner),
      .n_id = find(view, "n_id", Store::kNode, type, owner),
      .num_sampled_nodes = find_counts(view, "num_sampled_nodes", Store::kNode, type),
      .node_arrays = other_arrays(view, Store::kNode, type,
                                  {"x", "y", batch_field::kNId, batch_field::kNumSampledNodes,
                                   batch_field::kInputId, batch_field::kSeedIndex, batch_field::kBatchSize},
                                  owner)};
  // Half floats are for storing and moving; layers compute in float32.
  if (nodes.x.defined() && (nodes.x.dtype() == torch::kFloat16 || nodes.x.dtype() == torch::kBFloat16))
    nodes.x = pooled_tensor(nodes.x.sizes(), torch::kFloat32).copy_(nodes.x);
  if (nodes.y.defined()) nodes.y = nodes.y.to(torch::kInt64);  // no copy where it is int64 already
  return nodes;
}

EdgeTensors edge_tensors(const BatchView& view, int type, const Owner& owner) {
  return {.edge_index = find(view, "edge_index", Store::kEdge, type, owner),
          .e_id = find(view, "e_id", Store::kEdge, type, owner),
          .num_sampled_edges = find_counts(view, "num_sampled_edges", Store::kEdge, type),
          .edge_arrays = other_arrays(
              view, Store::kEdge, type,
              {batch_field::kEdgeIndex, batch_field::kEId, batch_field::kNumSampledEdges,
               batch_field::kInputId, batch_field::kSeedTime, kEdgeLabelIndex, kEdgeLabel, kEdgeLabelTime,
               kSrcIndex, kDstPosIndex, kDstNegIndex, batch_field::kNumNegativeRetries},
              owner)};
}

/// The one edge type that has links; -1 where the seeds are nodes.
int link_type(const BatchView& view) {
  for (int e = 0; e < view.header().num_edge_types; ++e) {
    if (view.has(kEdgeLabelIndex, Store::kEdge, e) || view.has(kSrcIndex, Store::kEdge, e)) return e;
  }
  return -1;
}

/// The one node type that has batch_size.
int seed_type(const BatchView& view) {
  for (int t = 0; t < view.header().num_node_types; ++t) {
    if (view.has("batch_size", Store::kNode, t)) return t;
  }
  throw Error(ErrorCode::kCorrupt, "a batch block has no array batch_size, so its seeds are unknown");
}

LinkTensors link_tensors(const BatchView& view, int type, const Owner& owner) {
  const auto of = [&](std::string_view name) { return find(view, name, Store::kEdge, type, owner); };
  const ArrayView retries = view.find(batch_field::kNumNegativeRetries, Store::kEdge, type);
  return {.edge_type = type,
          .edge_label_index = of(kEdgeLabelIndex),
          .edge_label = of(kEdgeLabel),
          .edge_label_time = of(kEdgeLabelTime),
          .src_index = of(kSrcIndex),
          .dst_pos_index = of(kDstPosIndex),
          .dst_neg_index = of(kDstNegIndex),
          .seed_time = of(batch_field::kSeedTime),
          .num_negative_retries = retries.name.empty() ? 0 : retries.as<std::int64_t>().front()};
}

SeedTensors link_seed_tensors(const BatchView& view, int type, const Owner& owner) {
  return {.input_id = find(view, batch_field::kInputId, Store::kEdge, type, owner)};
}

SeedTensors seed_tensors(const BatchView& view, int type, const Owner& owner) {
  const auto size = view.get("batch_size", Store::kNode, type).as<std::int64_t>();
  if (size.empty()) throw Error(ErrorCode::kCorrupt, "a batch block has an empty array batch_size");
  return {.input_id = find(view, "input_id", Store::kNode, type, owner),
          .seed_index = find(view, "seed_index", Store::kNode, type, owner),
          .batch_size = size.front()};
}

CompressedRows rows_of(const EdgeTensors& edges, const NodeTensors& sources,
                       const NodeTensors& destinations) {
  const bool by_hop = edges.num_hops() > 0 && !edges.edge_arrays.contains("_orig_edge_index");
  require_valid(
      by_hop || destinations.is_whole() || edges.edge_index.size(1) == 0,
      "this batch's edges are not told hop by hop, so its layers cannot be cut out of it; sample with "
      "subgraph directional or induced, or let a model of your own read edge_index");
  return compress_rows(edges.edge_index,
                       by_hop ? destinations.num_expanded(edges.num_hops()) : destinations.num_nodes(),
                       sources.num_nodes());
}

}  // namespace

torch::Dtype dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return torch::kUInt8;
    case ElementType::kInt8:
      return torch::kInt8;
    case ElementType::kInt16:
      return torch::kInt16;
    case ElementType::kInt32:
      return torch::kInt32;
    case ElementType::kInt64:
      return torch::kInt64;
    case ElementType::kFloat16:
      return torch::kFloat16;
    case ElementType::kBfloat16:
      return torch::kBFloat16;
    case ElementType::kFloat32:
      return torch::kFloat32;
    case ElementType::kFloat64:
      return torch::kFloat64;
    case ElementType::kBool:
      return torch::kBool;
    case ElementType::kUint32:
      return torch::kUInt32;
    case ElementType::kInt8Scaled:
    case ElementType::kInt4Scaled:
      break;
  }
  throw Error(ErrorCode::kUnsupported, "element type " + std::to_string(static_cast<int>(type)) + " (" +
                                           to_string(type) + ") is unknown to Torch");
}

BatchTensors to_tensors(const BatchView& view, std::shared_ptr<const void> owner) {
  const bool homogeneous = view.header().num_node_types == 1 && view.header().num_edge_types == 1;
  if (const int links = link_type(view); links >= 0) {
    require_valid(homogeneous, "links of a dataset of several types have ends in two; use to_typed_tensors");
    return {node_tensors(view, 0, owner), edge_tensors(view, 0, owner), link_seed_tensors(view, links, owner),
            link_tensors(view, links, owner)};
  }
  const int type = seed_type(view);
  return {node_tensors(view, type, owner), homogeneous ? edge_tensors(view, 0, owner) : EdgeTensors{},
          seed_tensors(view, type, owner), LinkTensors{}};
}

TypedBatchTensors to_typed_tensors(const BatchView& view, const DatasetMeta& meta,
                                   std::shared_ptr<const void> owner) {
  if (view.header().num_node_types != meta.node_types.size() ||
      view.header().num_edge_types != meta.edge_types.size())
    throw Error(ErrorCode::kInvalid,
                "the batch is not of dataset '" + meta.name + "', whose types it should have");
  TypedBatchTensors batch;
  batch.meta = &meta;
  if (const int links = link_type(view); links >= 0) {
    batch.links = link_tensors(view, links, owner);
    batch.seed_type = meta.edge_src_type(meta.edge_types[static_cast<std::size_t>(links)]);
    static_cast<SeedTensors&>(batch) = link_seed_tensors(view, links, owner);
  } else {
    batch.seed_type = seed_type(view);
    static_cast<SeedTensors&>(batch) = seed_tensors(view, batch.seed_type, owner);
  }
  for (int t = 0; t < view.header().num_node_types; ++t) batch.nodes.push_back(node_tensors(view, t, owner));
  for (int e = 0; e < view.header().num_edge_types; ++e) batch.edges.push_back(edge_tensors(view, e, owner));
  return batch;
}

BatchTensors to_tensors(const Batch& batch) {
  return to_tensors(batch.view(), std::make_shared<const Batch>(batch));
}

TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta) {
  return to_typed_tensors(batch.view(), meta, std::make_shared<const Batch>(batch));
}

std::int64_t NodeTensors::num_expanded(std::int64_t hops) const {
  if (is_whole()) return num_nodes();
  return std::accumulate(num_sampled_nodes.begin(), num_sampled_nodes.begin() + hops, std::int64_t{0});
}

torch::Tensor SeedTensors::at_seeds(const torch::Tensor& values) const {
  return seed_index.defined() ? values.index_select(0, seed_index) : values.narrow(0, 0, batch_size);
}

CompressedRows BatchTensors::rows() const { return rows_of(*this, *this, *this); }

std::int64_t TypedBatchTensors::num_hops() const {
  return std::max<std::int64_t>(1, std::ssize(nodes.front().num_sampled_nodes)) - 1;
}

CompressedRows TypedBatchTensors::rows(int edge_type) const {
  const EdgeTypeMeta& names = meta->edge_types[edge_type];
  return rows_of(edges[edge_type], nodes[meta->edge_src_type(names)], nodes[meta->edge_dst_type(names)]);
}

}  // namespace hopfeed
