// Measures one step of training GraphSAGE, taken apart: what forward, loss, backward and optimizer cost in
// CPU time of all threads and on the clock.
#pragma once
#include <torch/torch.h>

#include <array>
#include <vector>

#include "bench/trainer/step_batches.h"
#include "trainer/batch_tensors.h"
#include "trainer/model.h"

namespace hopfeed::bench {

enum StepPart { kForward, kLoss, kBackward, kOptimizer, kNumParts };
inline constexpr std::array<const char*, kNumParts> kPartNames{"forward", "loss", "backward", "optimizer"};

struct Cost {
  double cpu_ms = 0;  // of all threads of the process
  double wall_ms = 0;
};

struct StepCosts {
  Cost step;
  std::array<Cost, kNumParts> parts;
};

struct StepReport {
  StepCosts median;            // of each figure by itself: parts need not add up to the step
  std::vector<double> losses;  // of the steps in their order, the first of each batch
  std::int64_t steps = 0;      // measured
};

/// Returns the median of to_tensors() on the blocks in turn: next to nothing, but for rows that are stored in
/// fewer bits than layers compute with.
Cost measure_tensors(const std::vector<StepBlock>& blocks, double seconds);

/// Trains on the batches in turn until `seconds` are over, each batch at least twice; the first round warms
/// and is not counted.
StepReport measure_steps(GraphSage& model, const std::vector<BatchTensors>& batches, double seconds);

}  // namespace hopfeed::bench
