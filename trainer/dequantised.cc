// See dequantised.h.
#include "trainer/dequantised.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kGrainElements = 1 << 18;  // a megabyte of values: far more than a thread costs

}  // namespace

torch::Tensor dequantised(const QuantisedRows& rows, c10::IntArrayRef shape) {
  torch::Tensor values = pooled_tensor(shape, torch::kFloat32);
  auto* const out = values.mutable_data_ptr<float>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, rows.elements));
  at::parallel_for(0, rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    dequantise(rows.part(begin, end), out + begin * rows.elements);
  });
  return values;
}

torch::Tensor dequantised(ElementType type, const torch::Tensor& rows, c10::IntArrayRef shape) {
  const std::int64_t count = rows.size(0);
  const std::int64_t elements = count > 0 ? c10::multiply_integers(shape) / count : 0;
  if (count == 0) return torch::empty(shape, rows.options().dtype(torch::kFloat32));
  const torch::Tensor scale = rows.narrow(1, 0, kScaleBytes).contiguous().view(torch::kFloat32),
                      bytes = rows.narrow(1, kScaleBytes, rows.size(1) - kScaleBytes);
  if (type == ElementType::kInt8Scaled)
    return (bytes.contiguous().view(torch::kInt8).to(torch::kFloat32) * scale).view(shape);
  const torch::Tensor pairs = bytes.to(torch::kInt32), low = pairs.bitwise_and(15),
                      high = pairs.bitwise_right_shift(4);
  const torch::Tensor halves = torch::stack({low, high}, 2).flatten(1).narrow(1, 0, elements);
  return ((halves.bitwise_xor(8) - 8).to(torch::kFloat32) * scale).view(shape);
}

}  // namespace hopfeed
