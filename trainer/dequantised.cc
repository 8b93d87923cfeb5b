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

}  // namespace hopfeed
