// A GradientReducer averages the gradients that the trainers of a run share: DistributedDataParallel in C++,
// by c10d's Reducer, which is used in gradient_reducer.cc alone because its interface is not a stable one.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/world.h"

namespace hopfeed {

/// It averages while backward runs. With one rank `backward` is loss.backward().
class GradientReducer {
 public:
  /// All ranks take rank 0's parameters; each parameter must take part in every loss. `world` must outlive
  /// the reducer.
  GradientReducer(World& world, const std::vector<torch::Tensor>& parameters);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Runs backward; afterwards every rank's parameters hold the average of the ranks' gradients.
  void backward(const torch::Tensor& loss);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A RoundLoss is one rank's share of the loss of a round, the batches of all ranks that make one step.
struct RoundLoss {
  torch::Tensor loss;  // for backward: averaged over the ranks, its gradient is that of the mean over all the
                       // round's seeds
  double sum = 0;      // of the losses of all seeds of the round
  std::int64_t seeds = 0;  // labelled seeds of the round

  double mean() const { return seeds > 0 ? sum / static_cast<double>(seeds) : 0; }
};

/// Weighs this rank's loss by its seeds: ranks may hold different numbers of them (the last round is spread),
/// none included. `loss_sum` is the sum over this rank's labelled seeds, not their mean.
RoundLoss round_loss(World& world, const torch::Tensor& loss_sum, std::int64_t seeds);

}  // namespace hopfeed
