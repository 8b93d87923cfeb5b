// The programs that train also infer: exact results of all nodes from a trained model, written for others.
// This is what they share: options, which folders results go to, and the run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/program/command_line.h"
#include "examples/training_process.h"
#include "peers/peer_options.h"
#include "results/run_folder.h"
#include "trainer/inference_plan.h"
#include "trainer/model_description.h"
#include "trainer/world.h"

namespace hopfeed {

/// InferenceArguments are the options of inference that all of them have.
struct InferenceArguments {
  bool infer = false, softmax = false, float16 = false, overwrite = false;
  std::filesystem::path model, results, trained_on;
  std::string write, nodes, state, format = "npy";
  std::size_t memory = std::size_t{4} << 30;
  const CommandLine* line = nullptr;  // that they were added to

  /// Returns whether nothing is trained: the model is that of --model.
  bool alone() const { return infer && !model.empty(); }
};
void add_options(CommandLine& line, InferenceArguments& arguments);

/// What a program knows of its inference beside the options.
struct InferenceTask {
  std::filesystem::path dataset, model;  // folder, and file
  std::string kind;                      // of models that the program takes: "nodes", "links"
  PeerOptions peers;                     // of the other partitions
  torch::Device device = torch::kCPU;
  int threads = 1;
  bool check_finite = false;
  LeftRows left = LeftRows::kStay;  // of another run in --results
  /// Makes the model of a description for a dataset, untrained, and returns it with what inference needs of
  /// it.
  struct Made {
    std::shared_ptr<torch::nn::Module> module;
    std::function<InferredModel()> inferred;  // once it has its parameters
  };
  std::function<Made(const ModelDescription&, const Dataset&)> make;
  /// What old files, which say nothing of their model, are of: by the command line.
  ModelDescription of_flags;
};

/// CheckedBeside are options of the program that those of inference have to go with.
struct CheckedBeside {
  bool remote = false;              // batches come from servers
  bool peers = false;               // other machines have other partitions
  bool exact = false;               // a training tells exact accuracies, over machines by --results
  std::filesystem::path data, out;  // the dataset; where a training leaves its model
};
/// Throws kInvalid where options do not go together, before anything is opened or trained.
void check(const InferenceArguments& arguments, const CheckedBeside& beside);

/// Infers with --model and writes, and trains nothing: on the cores of --cores, with --threads or a thread
/// for each of them. Of a machine's ranks the first does it. Tells what it does on standard error, and in
/// --json.
void infer_alone(const InferenceArguments& arguments, const ProcessArguments& process,
                 const std::function<InferenceTask(torch::Device)>& task);
/// Infers behind a training, whose ranks call it together: rank 0 infers, or, over partitions, one rank of
/// each machine; the others wait. `task.model` is a file of rank 0. Returns what this rank's summary says.
nlohmann::json infer_together(World& world, const InferenceArguments& arguments, InferenceTask task);

}  // namespace hopfeed
