// See gradient_reducer.h.
#include "trainer/gradient_reducer.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "trainer/world_connection.h"

namespace hopfeed {

struct GradientReducer::Impl {
  std::unique_ptr<c10d::Reducer> reducer;  // null with one rank
};

namespace {

std::unique_ptr<c10d::Reducer> make_reducer(const WorldConnection& connection,
                                            const std::vector<torch::Tensor>& parameters) {
  const std::vector<bool> dense(parameters.size(), false);
  // Gradients come in the reverse order of the layers, so buckets are filled from the last parameter.
  const std::vector<torch::Tensor> reversed(parameters.rbegin(), parameters.rend());
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      reversed, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}, dense);
  for (auto& bucket : buckets) {
    for (std::size_t& index : bucket) index = parameters.size() - 1 - index;
  }
  return std::make_unique<c10d::Reducer>(
      parameters, std::move(buckets), connection.group, dense, c10d::kDefaultBucketBytesCap,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
      std::unordered_map<std::size_t, std::string>{}, c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

/// Reducer orders its buckets anew after the first backward, and with the order of a bucket goes the order of
/// the sums of three or more ranks: a resumed run would differ from an undisturbed one in its first step. A
/// backward through zeros brings the new order about before any step.
void settle_buckets(c10d::Reducer& reducer, const std::vector<torch::Tensor>& parameters) {
  torch::Tensor zero = torch::zeros({}, parameters.front().options());
  for (const torch::Tensor& parameter : parameters) zero = zero + parameter.sum() * 0;
  reducer.prepare_for_backward({});
  zero.backward();
  reducer.rebuild_buckets();
  for (const torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::Tensor();
}

}  // namespace

GradientReducer::GradientReducer(World& world, const std::vector<torch::Tensor>& parameters)
    : impl_(std::make_unique<Impl>()) {
  if (!world.connection()) return;
  for (const torch::Tensor& parameter : parameters) world.broadcast(parameter.detach());
  translate_torch_errors("preparing the gradients' sums", [&] {
    impl_->reducer = make_reducer(*world.connection(), parameters);
    settle_buckets(*impl_->reducer, parameters);
  });
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::backward(const torch::Tensor& loss) {
  if (!impl_->reducer) return loss.backward();
  translate_torch_errors("averaging the gradients", [&] {
    impl_->reducer->prepare_for_backward({});
    loss.backward();
  });
}

RoundLoss round_loss(World& world, const torch::Tensor& loss_sum, std::int64_t seeds) {
  const std::vector<double> round = world.sum({loss_sum.item<double>(), static_cast<double>(seeds)});
  const double share = static_cast<double>(world.size()) / std::max(round[1], 1.0);
  return {.loss = loss_sum * share, .sum = round[0], .seeds = static_cast<std::int64_t>(round[1])};
}

}  // namespace hopfeed
