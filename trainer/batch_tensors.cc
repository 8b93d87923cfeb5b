// See batch_tensors.h.
#include "trainer/batch_tensors.h"

#include <numeric>
#include <string>

#include "core/error.h"

namespace hopfeed {
namespace {

std::vector<std::int64_t> to_vector(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

torch::Tensor to_tensor(const ArrayView& array, std::shared_ptr<const void> owner) {
  void* data = const_cast<std::byte*>(
      array.bytes.data());  // from_blob takes no const; nobody writes (batch_tensors.h)
  const c10::IntArrayRef shape(array.shape.data(), array.shape.size());
  return torch::from_blob(
      data, shape, [owner = std::move(owner)](void*) {}, torch::TensorOptions(dtype_of(array.type)));
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
  }
  throw Error(ErrorCode::kUnsupported,
              "element type " + std::to_string(static_cast<int>(type)) + " is unknown to Torch");
}

BatchTensors to_tensors(const BatchView& view, std::shared_ptr<const void> owner) {
  const auto tensor = [&](const char* name, Store store) {
    const ArrayView array = view.find(name, store);
    return array.name.empty() ? torch::Tensor() : to_tensor(array, owner);
  };
  BatchTensors result{.x = tensor("x", Store::kNode),
                      .y = tensor("y", Store::kNode),
                      .edge_index = tensor("edge_index", Store::kEdge),
                      .e_id = tensor("e_id", Store::kEdge),
                      .n_id = tensor("n_id", Store::kNode),
                      .input_id = tensor("input_id", Store::kNode),
                      .seed_index = tensor("seed_index", Store::kNode),
                      .batch_size = view.batch_size(),
                      .num_sampled_nodes = to_vector(view.num_sampled_nodes()),
                      .num_sampled_edges = to_vector(view.num_sampled_edges())};
  if (result.y.defined()) result.y = result.y.to(torch::kInt64);  // no copy where it is int64 already
  return result;
}

BatchTensors to_tensors(const Batch& batch) {
  return to_tensors(batch.view(), std::make_shared<const Batch>(batch));
}

std::int64_t BatchTensors::num_expanded(std::int64_t hops) const {
  return std::accumulate(num_sampled_nodes.begin(), num_sampled_nodes.begin() + hops, std::int64_t{0});
}

CompressedRows BatchTensors::rows() const {
  return compress_rows(edge_index, num_expanded(num_hops()), num_nodes());
}

torch::Tensor BatchTensors::at_seeds(const torch::Tensor& values) const {
  return seed_index.defined() ? values.index_select(0, seed_index) : values.narrow(0, 0, batch_size);
}

}  // namespace hopfeed
