// See sage_step.h.
#include "bench/trainer/sage_step.h"

#include <time.h>

#include <algorithm>

#include "bench/measure.h"

namespace hopfeed::bench {
namespace {

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Stopwatch {
 public:
  /// What passed since the last call.
  Cost lap() {
    const double cpu = process_cpu_seconds(), wall = now();
    return {.cpu_ms = 1e3 * (cpu - std::exchange(cpu_, cpu)),
            .wall_ms = 1e3 * (wall - std::exchange(wall_, wall))};
  }

 private:
  double cpu_ = process_cpu_seconds(), wall_ = now();
};

template <class Part>
Cost median_of(const std::vector<StepCosts>& steps, Part part) {
  std::vector<double> cpu, wall;
  for (const StepCosts& step : steps) {
    cpu.push_back(part(step).cpu_ms);
    wall.push_back(part(step).wall_ms);
  }
  return {.cpu_ms = median(cpu), .wall_ms = median(wall)};
}

class Steps {
 public:
  explicit Steps(GraphSage& model)
      : model_(model), adam_(model->parameters(), torch::optim::AdamOptions(0.003)) {}

  /// Returns the loss before the step.
  double take(const BatchTensors& batch, StepCosts& costs) {
    Stopwatch watch;
    const torch::Tensor logits = batch.at_seeds(model_->forward(batch));
    costs.parts[kForward] = watch.lap();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        logits, batch.at_seeds(batch.y), torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
    costs.parts[kLoss] = watch.lap();
    loss.backward();
    costs.parts[kBackward] = watch.lap();
    adam_.step();
    adam_.zero_grad();
    costs.parts[kOptimizer] = watch.lap();
    for (const Cost& part : costs.parts) {
      costs.step.cpu_ms += part.cpu_ms;
      costs.step.wall_ms += part.wall_ms;
    }
    return loss.item<double>();
  }

 private:
  GraphSage& model_;
  torch::optim::Adam adam_;
};

}  // namespace

Cost measure_tensors(const std::vector<StepBlock>& blocks, double seconds) {
  std::vector<double> cpu, wall;
  for (const StepBlock& block : blocks) to_tensors(block.view, block.memory);
  for (const double begin = now(); now() - begin < seconds || cpu.size() < blocks.size();) {
    for (const StepBlock& block : blocks) {
      Stopwatch watch;
      to_tensors(block.view, block.memory);
      const Cost cost = watch.lap();
      cpu.push_back(cost.cpu_ms);
      wall.push_back(cost.wall_ms);
    }
  }
  return {.cpu_ms = median(cpu), .wall_ms = median(wall)};
}

StepReport measure_steps(GraphSage& model, const std::vector<BatchTensors>& batches, double seconds) {
  Steps steps(model);
  StepReport report;
  for (const BatchTensors& batch : batches) {
    StepCosts warming;
    report.losses.push_back(steps.take(batch, warming));
  }
  std::vector<StepCosts> costs;
  for (const double begin = now(); now() - begin < seconds || costs.size() < batches.size();) {
    for (const BatchTensors& batch : batches) steps.take(batch, costs.emplace_back());
  }
  report.steps = std::ssize(costs);
  report.median.step = median_of(costs, [](const StepCosts& step) { return step.step; });
  for (std::size_t i = 0; i < kNumParts; ++i)
    report.median.parts[i] = median_of(costs, [i](const StepCosts& step) { return step.parts[i]; });
  return report;
}

}  // namespace hopfeed::bench
