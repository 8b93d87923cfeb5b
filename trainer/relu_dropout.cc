// See relu_dropout.h.
#include "trainer/relu_dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <mutex>

#include "trainer/cpu_kernels.h"
#include "trainer/numerics.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kDropoutGrain = 256;  // rows handed to a thread at a time

struct ReluDropout : torch::autograd::Function<ReluDropout> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               double drop) {
    const torch::Tensor x = input.contiguous();
    torch::Tensor out = torch::empty_like(x);
    const DropRule rule = next_drop_rule(drop);
    const double scale = 1 / (1 - drop);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "relu_dropout", [&] {
      const MatrixView<scalar_t> view{x.const_data_ptr<scalar_t>(), x.size(1), x.size(1)};
      at::parallel_for(0, x.size(0), kDropoutGrain, [&](std::int64_t begin, std::int64_t end) {
        relu_dropout(view, rule, static_cast<scalar_t>(scale), begin, end, out.mutable_data_ptr<scalar_t>());
      });
    });
    context->save_for_backward({out});
    context->saved_data["scale"] = scale;
    return out;
  }
  // A unit passed exactly where its output is above 0.
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const torch::Tensor out = context->get_saved_variables()[0];
    return {at::threshold_backward(gradients[0], out, 0).mul_(context->saved_data["scale"].toDouble()), {}};
  }
};

}  // namespace

DropRule next_drop_rule(double drop) {
  if (drop == 0) return {};
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return {.key = at::check_generator<at::CPUGeneratorImpl>(generator)->random64(),
          .drop = static_cast<std::uint32_t>(drop * 0x1p32)};
}

torch::Tensor relu_dropout(const torch::Tensor& x, double drop) {
  if (fused_layers_take(x)) return ReluDropout::apply(x, drop);
  const torch::Tensor kept = torch::relu(x);
  return drop > 0 ? torch::dropout(kept, drop, /*train=*/true) : kept;
}

}  // namespace hopfeed
