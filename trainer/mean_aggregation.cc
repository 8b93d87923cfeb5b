// See mean_aggregation.h.
#include "trainer/mean_aggregation.h"

#include <ATen/Parallel.h>

#include "trainer/cpu_kernels.h"
#include "trainer/numerics.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kMeanGrain = 256;  // rows handed to a thread at a time

/// Sums or means of x's rows, for each of `rows`.
torch::Tensor reduce_rows(const torch::Tensor& x, const CompressedRows& rows, Reduction reduction) {
  torch::Tensor out = torch::empty({rows.num_rows(), x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "mean_aggregate", [&] {
    const MatrixView<scalar_t> view{x.const_data_ptr<scalar_t>(), x.stride(0), x.size(1)};
    at::parallel_for(0, rows.num_rows(), kMeanGrain, [&](std::int64_t begin, std::int64_t end) {
      reduce_segments(view, rows.rowptr.const_data_ptr<std::int64_t>(),
                      rows.col.const_data_ptr<std::int64_t>(), begin, end, reduction,
                      out.mutable_data_ptr<scalar_t>());
    });
  });
  return out;
}

struct MeanAggregation : torch::autograd::Function<MeanAggregation> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& rowptr, const torch::Tensor& col) {
    context->save_for_backward({rowptr, col});
    context->saved_data["num_sources"] = x.size(0);
    return reduce_rows(x.stride(1) == 1 ? x : x.contiguous(), {rowptr, col, {}}, Reduction::kMean);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const CompressedRows rows{saved[0], saved[1], {}};
    const torch::Tensor degrees = rows.rowptr.diff().clamp_min(1).to(gradients[0].scalar_type());
    return {reduce_rows((gradients[0] / degrees.unsqueeze(1)).contiguous(),
                        rows.transposed(context->saved_data["num_sources"].toInt()), Reduction::kSum),
            {},
            {}};
  }
};

}  // namespace

torch::Tensor mean_aggregate(const torch::Tensor& x, const CompressedRows& rows) {
  return fused_layers_take(x) ? MeanAggregation::apply(x, rows.rowptr, rows.col) : composed_mean(x, rows);
}

torch::Tensor composed_mean(const torch::Tensor& x, const CompressedRows& rows) {
  const bool half = x.scalar_type() == torch::kBFloat16 || x.scalar_type() == torch::kFloat16;
  const torch::Tensor values = half ? x.to(torch::kFloat32) : x, row = rows.destinations();
  const auto zeros = [&](std::int64_t width) {
    return torch::zeros({rows.num_rows(), width}, values.options().requires_grad(false));
  };
  const torch::Tensor one = torch::ones({1, 1}, values.options().requires_grad(false));
  const torch::Tensor sums = zeros(values.size(1)).index_add(0, row, values.index_select(0, rows.col)),
                      degrees = zeros(1).index_add(0, row, one.expand({row.size(0), 1}));
  return sums / degrees.clamp_min(1);
}

}  // namespace hopfeed
