// A training loop of one's own against the library: batches from the loader, layers and optimizer from Torch,
// gradients through c10d. Runs alone, or as several trainers:
//
//   torchrun --no-python --nproc-per-node=2 build/release/bin/own_training_loop quickstart/dataset
//
// With --servers in place of the folder the batches come from servers; nothing else changes.
#include <torch/torch.h>

#include <cstdio>

#include "core/dataset/dataset.h"
#include "core/program/program_main.h"
#include "programs/options/server_arguments.h"
#include "trainer/agreement.h"
#include "trainer/batch_tensors.h"
#include "trainer/device.h"
#include "trainer/gradient_reducer.h"
#include "trainer/layerwise_inference.h"
#include "trainer/model.h"
#include "trainer/world.h"

namespace nn = torch::nn::functional;

/// `source`: over a dataset folder, or over servers.
void train(const hopfeed::StreamSource& source, const std::string& folder, const std::string& device_name) {
  const auto [device, note] = hopfeed::choose_device(device_name);
  at::set_num_threads(1);
  hopfeed::World world({.device = device});  // reads RANK, WORLD_SIZE, ... ; else it is one trainer
  if (world.rank() == 0 && !note.empty()) std::fprintf(stderr, "%s\n", note.c_str());
  const auto stream =
      source.open({.batch = {.fanouts = {15, 10, 5}},
                   .seed = 1,
                   .deal = {.batch_size = 1024, .rank = world.rank(), .world_size = world.size()},
                   .execution = {.num_workers = 1}});  // 0: the calling thread samples
  hopfeed::BatchStream& loader = *stream;
  hopfeed::require_agreement(world, loader);  // or another dataset or seed at a rank goes unnoticed
  const auto& nodes = loader.meta().node_types.front();
  hopfeed::GraphSage model(hopfeed::ModelOptions{
      .hops = 3, .features = nodes.attrs.front().row_elements(), .classes = nodes.num_classes});
  model->to(device);
  hopfeed::GradientReducer reducer(world, model->parameters());
  torch::optim::Adam adam(model->parameters(), 0.01);

  for (int epoch = 0; epoch < 5; ++epoch) {
    double loss_sum = 0, seeds = 0;
    loader.begin_epoch(epoch);
    while (auto batch = loader.next()) {
      const hopfeed::BatchTensors tensors =
          to_tensors(*batch, device);  // on the CPU views of the slot, which is free when they are gone
      const torch::Tensor logits = tensors.at_seeds(model->forward(tensors)),
                          labels = tensors.at_seeds(tensors.y);
      const auto loss = nn::cross_entropy(
          logits, labels, nn::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
      const auto round = hopfeed::round_loss(world, loss, (labels >= 0).sum().item<std::int64_t>());
      adam.zero_grad();
      reducer.backward(round.loss);
      adam.step();
      loss_sum += round.sum;
      seeds += static_cast<double>(round.seeds);
    }
    if (world.rank() == 0) std::printf("epoch %d: loss %.4f\n", epoch, loss_sum / seeds);
  }
  if (world.rank() != 0) return;
  if (folder.empty()) {
    std::puts("the exact test accuracy needs the dataset folder");
  } else {
    const hopfeed::Dataset dataset(folder);
    const torch::Tensor logits = layerwise_inference(*model, dataset);  // exact, for all nodes
    std::printf("test accuracy %.4f\n", split_accuracy(logits, dataset, "test").value());
  }
}

int main(int argc, char** argv) {
  hopfeed::CommandLine line("own_training_loop", "A training loop of one's own: five epochs of GraphSAGE.");
  std::string folder;
  hopfeed::ServerArguments servers{"DATASET"};
  std::string device = "cpu";
  line.option("DATASET", folder, "Dataset folder");
  line.option("--device", device, "auto, cpu, cuda or cuda:N: where it trains");
  servers.add(line);
  line.action([&] {
    hopfeed::translate_torch_errors("training", [&] { train(*servers.streams(folder), folder, device); });
  });
  return hopfeed::program_main(line, argc, argv);
}
