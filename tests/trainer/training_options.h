// Has options of a training run that takes a second, and of one that is interrupted: training_test, its ranks
// and the tests of programs agree on them.
#pragma once
#include <xxhash.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/tiny_dataset.h"
#include "trainer/trainer.h"

namespace hopfeed::testing {

/// Returns a graph whose labels the features hint at, with a split "test" beside random_graph's.
inline TinyGraph training_graph() {
  TinyGraph graph = random_graph({.num_nodes = 600, .num_edges = 5'000, .x_width = 8, .num_train = 300});
  for (std::int64_t v = 0; v < graph.num_nodes; ++v) graph.x[v * 8 + graph.y[v]] += 1;
  graph.splits["test"] = graph.splits["valid"];
  return graph;
}

inline TrainingOptions small_training(const std::string& dataset) {
  return {.loader = {.dataset = dataset, .batch = {.fanouts = {4, 3}}, .deal = {.batch_size = 25}},
          .hidden = 16,
          .dropout = 0.4,
          .seed = 3};
}

/// An Interruption is thrown behind the `stop`th step: the run leaves what one leaves that is killed there.
struct Interruption : std::runtime_error {
  Interruption() : std::runtime_error("interrupted") {}
};
inline TrainingCallbacks interrupting(int stop) {
  return {.step = [stop, steps = 0](const StepReport&) mutable {
    if (++steps == stop) throw Interruption();
  }};
}

inline std::uint64_t parameter_digest(const std::shared_ptr<NodeClassifier>& model) {
  std::uint64_t digest = 0;
  const auto add = [&digest](const torch::Tensor& values) {
    digest = XXH3_64bits_withSeed(values.const_data_ptr(), values.nbytes(), digest);
  };
  for (const torch::Tensor& parameter : model->parameters()) add(parameter.detach().contiguous());
  const torch::NoGradGuard no_gradients;
  for (const auto& child : model->children())
    if (auto* learned = child->as<DistEmbeddingImpl>())
      add(learned->forward(torch::arange(learned->table().options().rows)));
  return digest;
}

}  // namespace hopfeed::testing
