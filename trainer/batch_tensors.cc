// See batch_tensors.h.
#include "trainer/batch_tensors.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

constexpr std::string_view kEdgeLabelIndex = "edge_label_index", kEdgeLabel = "edge_label",
                           kEdgeLabelTime = "edge_label_time", kSrcIndex = "src_index",
                           kDstPosIndex = "dst_pos_index", kDstNegIndex = "dst_neg_index";

/// Where the tensors of a batch lie: over the block itself, over a copy of it on a device, or over a block
/// that lies on a device (DeviceForm).
struct Place {
  std::shared_ptr<const void> owner;  // of the block on the host
  CopyStream* copies = nullptr;       // where there are any
  torch::Tensor block = {};           // on the device: uint8 [bytes]
  const std::byte* begin = nullptr;   // of the block on the host, or of its head

  Place(const BatchView& view, std::shared_ptr<const void> owner, CopyStream* copies)
      : owner(std::move(owner)), copies(copies), begin(view.bytes().data()) {
    if (copies == nullptr) return;
    const auto bytes = static_cast<std::int64_t>(view.bytes().size());
    block = copies->copy(over(begin, {bytes}, torch::kUInt8));
  }
  /// What computes on `device` may read the block until the last tensor over it is gone.
  Place(const Batch& batch, torch::Device device, CopyStream* copies)
      : copies(copies), begin(batch.device_form()->head.bytes().data()) {
    const DeviceForm& form = *batch.device_form();
    block = torch::from_blob(
        const_cast<std::byte*>(form.data), {static_cast<std::int64_t>(form.head.bytes().size())},
        [batch, device](void*) {
          if (!device.is_cpu())
            batch.used_on({c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle(),
                           device.index()});
        },
        torch::TensorOptions(torch::kUInt8).device(device));
  }
  bool on_device() const { return block.defined(); }

  /// from_blob takes no const; nobody writes (batch_tensors.h).
  torch::Tensor over(const std::byte* data, c10::IntArrayRef shape, torch::Dtype dtype) const {
    return torch::from_blob(
        const_cast<std::byte*>(data), shape, [owner = owner](void*) {}, torch::TensorOptions(dtype));
  }
  /// The bytes of an array, on the device.
  torch::Tensor bytes(const ArrayView& array) const {
    return block.narrow(0, array.bytes.data() - begin, static_cast<std::int64_t>(array.bytes.size()));
  }
  /// `made` of tensors of this batch, where it is a tensor of its own.
  torch::Tensor own(const torch::Tensor& made) const {
    return copies == nullptr || made.is_alias_of(block) ? made : copies->keep(made);
  }
};

torch::Tensor to_tensor(const ArrayView& array, const Place& place) {
  const c10::IntArrayRef shape(array.shape.data(), array.shape.size());
  if (has_scale(array.type)) {
    const QuantisedRows rows = quantised_rows(array);
    if (!place.on_device()) return dequantised(rows, shape);
    return place.own(
        dequantised(array.type, place.bytes(array).view({rows.count, rows.stride_bytes}), shape));
  }
  const torch::Dtype dtype = dtype_of(array.type);
  if (!place.on_device()) return place.over(array.bytes.data(), shape, dtype);
  return place.bytes(array).view(dtype).view(shape);
}

/// Undefined where the batch has no such array.
torch::Tensor find(const BatchView& view, std::string_view name, Store store, int type, const Place& place) {
  const ArrayView array = view.find(name, store, type);
  return array.name.empty() ? torch::Tensor() : to_tensor(array, place);
}

/// What a type has beside `fields`, which have a place of their own in its struct: others of edges than of
/// nodes, so that an edge attribute may be called x.
std::map<std::string, torch::Tensor> other_arrays(const BatchView& view, Store store, int type,
                                                  std::initializer_list<std::string_view> fields,
                                                  const Place& place) {
  std::map<std::string, torch::Tensor> result;
  for (int i = 0; i < view.num_arrays(); ++i) {
    const ArrayView array = view.array(i);
    if (array.store != store || array.type_number != type) continue;
    if (std::ranges::find(fields, array.name) == fields.end())
      result.emplace(array.name, to_tensor(array, place));
  }
  return result;
}

NodeTensors node_tensors(const BatchView& view, int type, const Place& place) {
  NodeTensors nodes{.x = find(view, "x", Store::kNode, type, place),
                    .y = find(view, "y", Store::kNode, type, place),
                    .n_id = find(view, "n_id", Store::kNode, type, place),
                    .dataset_id = find(view, batch_field::kDatasetId, Store::kNode, type, place),
                    .num_sampled_nodes = find_counts(view, "num_sampled_nodes", Store::kNode, type),
                    .node_arrays = other_arrays(
                        view, Store::kNode, type,
                        {"x", "y", batch_field::kNId, batch_field::kDatasetId, batch_field::kNumSampledNodes,
                         batch_field::kInputId, batch_field::kSeedIndex, batch_field::kBatchSize},
                        place)};
  // Half floats are for storing and moving; layers compute in float32.
  if (nodes.x.defined() && (nodes.x.dtype() == torch::kFloat16 || nodes.x.dtype() == torch::kBFloat16))
    nodes.x = place.on_device() ? place.own(nodes.x.to(torch::kFloat32))
                                : pooled_tensor(nodes.x.sizes(), torch::kFloat32).copy_(nodes.x);
  if (nodes.y.defined()) nodes.y = place.own(nodes.y.to(torch::kInt64));  // none where it is int64 already
  return nodes;
}

EdgeTensors edge_tensors(const BatchView& view, int type, const Place& place) {
  return {.edge_index = find(view, "edge_index", Store::kEdge, type, place),
          .e_id = find(view, "e_id", Store::kEdge, type, place),
          .num_sampled_edges = find_counts(view, "num_sampled_edges", Store::kEdge, type),
          .edge_arrays = other_arrays(
              view, Store::kEdge, type,
              {batch_field::kEdgeIndex, batch_field::kEId, batch_field::kNumSampledEdges,
               batch_field::kInputId, batch_field::kSeedTime, kEdgeLabelIndex, kEdgeLabel, kEdgeLabelTime,
               kSrcIndex, kDstPosIndex, kDstNegIndex, batch_field::kNumNegativeRetries},
              place)};
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

LinkTensors link_tensors(const BatchView& view, int type, const Place& place) {
  const auto of = [&](std::string_view name) { return find(view, name, Store::kEdge, type, place); };
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

SeedTensors link_seed_tensors(const BatchView& view, int type, const Place& place) {
  return {.input_id = find(view, batch_field::kInputId, Store::kEdge, type, place)};
}

SeedTensors seed_tensors(const BatchView& view, int type, const Place& place) {
  const auto size = view.get("batch_size", Store::kNode, type).as<std::int64_t>();
  if (size.empty()) throw Error(ErrorCode::kCorrupt, "a batch block has an empty array batch_size");
  return {.input_id = find(view, "input_id", Store::kNode, type, place),
          .seed_index = find(view, "seed_index", Store::kNode, type, place),
          .batch_size = size.front()};
}

/// Whether layers can be cut out of the edges of a type, and then how many rows these have.
std::optional<std::int64_t> num_rows_of(const EdgeTensors& edges, const NodeTensors& destinations) {
  const bool by_hop = edges.num_hops() > 0 && !edges.edge_arrays.contains("_orig_edge_index");
  if (!by_hop && !destinations.is_whole() && edges.edge_index.size(1) > 0) return {};
  return by_hop ? destinations.num_expanded(edges.num_hops()) : destinations.num_nodes();
}

CompressedRows rows_of(const EdgeTensors& edges, const NodeTensors& sources,
                       const NodeTensors& destinations) {
  if (edges.rowptr.defined()) return {edges.rowptr, edges.edge_index[0], edges.edge_index[1]};
  const std::optional<std::int64_t> num_rows = num_rows_of(edges, destinations);
  require_valid(
      num_rows.has_value(),
      "this batch's edges are not told hop by hop, so its layers cannot be cut out of it; sample with "
      "subgraph directional or induced, or let a model of your own read edge_index");
  return compress_rows(edges.edge_index, *num_rows, sources.num_nodes());
}

/// Fills in what rows_of() needs in the host's memory for edges on a device: from the block there, or, where
/// the batch was made on the device, from its edges, which are in the order of their destinations.
void find_rowptr(EdgeTensors& edges, const BatchView& view, int type, const NodeTensors& sources,
                 const NodeTensors& destinations, const Place& place) {
  if (!place.on_device() || !edges.edge_index.defined()) return;
  const std::optional<std::int64_t> num_rows = num_rows_of(edges, destinations);
  if (!num_rows) return;
  if (place.owner == nullptr) {
    const torch::Tensor rows = torch::arange(*num_rows + 1, edges.edge_index.options());
    edges.rowptr = torch::searchsorted(edges.edge_index[1].contiguous(), rows).cpu();
    return;
  }
  const ArrayView array = view.get(batch_field::kEdgeIndex, Store::kEdge, type);
  const torch::Tensor on_host =
      place.over(array.bytes.data(), {array.shape.data(), array.shape.size()}, torch::kInt64);
  edges.rowptr = compress_rows(on_host, *num_rows, sources.num_nodes()).rowptr;
}

/// Copies that end before this returns, on a stream that the thread keeps: Torch's allocator has memory for
/// each stream apart.
template <class Make>
auto copied(torch::Device device, Make make) {
  if (device.is_cpu()) return make(static_cast<CopyStream*>(nullptr));
  thread_local std::optional<CopyStream> copies;
  if (!copies || copies->device() != device) copies.emplace(device);
  try {
    auto tensors = copies->run([&] { return make(&*copies); });
    copies->hand_over();
    copies->release();
    return tensors;
  } catch (...) {
    copies.reset();  // and with it what it keeps
    throw;
  }
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

namespace {

BatchTensors tensors_at(const BatchView& view, const Place& place) {
  const bool homogeneous = view.header().num_node_types == 1 && view.header().num_edge_types == 1;
  const int links = link_type(view);
  require_valid(links < 0 || homogeneous,
                "links of a dataset of several types have ends in two; use to_typed_tensors");
  const int type = links >= 0 ? 0 : seed_type(view);
  BatchTensors batch{node_tensors(view, type, place),
                     homogeneous ? edge_tensors(view, 0, place) : EdgeTensors{},
                     links >= 0 ? link_seed_tensors(view, links, place) : seed_tensors(view, type, place),
                     links >= 0 ? link_tensors(view, links, place) : LinkTensors{}};
  find_rowptr(batch, view, 0, batch, batch, place);
  return batch;
}

TypedBatchTensors typed_tensors_at(const BatchView& view, const DatasetMeta& meta, const Place& place) {
  if (view.header().num_node_types != meta.node_types.size() ||
      view.header().num_edge_types != meta.edge_types.size())
    throw Error(ErrorCode::kInvalid,
                "the batch is not of dataset '" + meta.name + "', whose types it should have");
  TypedBatchTensors batch;
  batch.meta = &meta;
  if (const int links = link_type(view); links >= 0) {
    batch.links = link_tensors(view, links, place);
    batch.seed_type = meta.edge_src_type(meta.edge_types[static_cast<std::size_t>(links)]);
    static_cast<SeedTensors&>(batch) = link_seed_tensors(view, links, place);
  } else {
    batch.seed_type = seed_type(view);
    static_cast<SeedTensors&>(batch) = seed_tensors(view, batch.seed_type, place);
  }
  for (int t = 0; t < view.header().num_node_types; ++t) batch.nodes.push_back(node_tensors(view, t, place));
  for (int e = 0; e < view.header().num_edge_types; ++e) {
    const EdgeTypeMeta& names = meta.edge_types[static_cast<std::size_t>(e)];
    batch.edges.push_back(edge_tensors(view, e, place));
    find_rowptr(batch.edges.back(), view, e, batch.nodes[meta.edge_src_type(names)],
                batch.nodes[meta.edge_dst_type(names)], place);
  }
  return batch;
}

/// Where a batch that lies on a device is to be read.
torch::Device device_of(const Batch& batch, CopyStream* copies) {
  if (copies != nullptr) return copies->device();
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(batch.device_form()->device)};
}

}  // namespace

BatchTensors to_tensors(const BatchView& view, std::shared_ptr<const void> owner, CopyStream* copies) {
  return tensors_at(view, Place(view, std::move(owner), copies));
}

TypedBatchTensors to_typed_tensors(const BatchView& view, const DatasetMeta& meta,
                                   std::shared_ptr<const void> owner, CopyStream* copies) {
  return typed_tensors_at(view, meta, Place(view, std::move(owner), copies));
}

BatchTensors to_tensors(const Batch& batch) { return to_tensors(batch, nullptr); }

TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta) {
  return to_typed_tensors(batch, meta, nullptr);
}

BatchTensors to_tensors(const Batch& batch, torch::Device device) {
  return copied(device, [&](CopyStream* copies) { return to_tensors(batch, copies); });
}

TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta, torch::Device device) {
  return copied(device, [&](CopyStream* copies) { return to_typed_tensors(batch, meta, copies); });
}

BatchTensors to_tensors(const Batch& batch, CopyStream* copies) {
  if (const DeviceForm* form = batch.device_form())
    return tensors_at(form->head, Place(batch, device_of(batch, copies), copies));
  return to_tensors(batch.view(), std::make_shared<const Batch>(batch), copies);
}

TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta, CopyStream* copies) {
  if (const DeviceForm* form = batch.device_form())
    return typed_tensors_at(form->head, meta, Place(batch, device_of(batch, copies), copies));
  return to_typed_tensors(batch.view(), meta, std::make_shared<const Batch>(batch), copies);
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
