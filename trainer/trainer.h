// Node classification from a dataset folder to a trained model: loaders, model, optimizer, gradients,
// validation, checkpoints. Any number of ranks calls it with the same options;
// examples/node_classification.cc is a program around it and examples/own_training_loop.cc does without it.
//
// A run is a function of its options: killed at any moment and started again by torchrun, it takes its last
// checkpoint and ends with the same losses, to the last bit.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset.h"
#include "trainer/checkpoint.h"
#include "trainer/node_classifier.h"
#include "trainer/world.h"
#include "worker_mode/loader.h"
#include "worker_mode/trace_file.h"

namespace hopfeed {

/// When to go on from the checkpoint in the output folder.
enum class Resume {
  kAfterRestart,  // only where the launcher has restarted this run; a checkpoint of an earlier run becomes <name>.checkpoint.old
  kAlways,        // wherever there is one
};

struct TrainingOptions {
  LoaderOptions
      loader;  // dataset, fanouts, batch size, workers; rank, world size and splits are filled in here
  std::string train_split = "train";
  std::string valid_split = "valid";  // where the dataset has none, the last epoch's model is the best
  std::int64_t epochs = 20;
  std::int64_t hidden = 128;
  double dropout = 0.3;
  double lr = 0.01;
  double weight_decay = 1e-5;
  std::uint64_t seed = 0;     // of sampling, initial parameters and dropout
  std::filesystem::path out;  // rank 0 keeps <name>.pt (the best model) and <name>.checkpoint here
  std::string name = "model";
  std::int64_t checkpoint_every = 0;  // steps between checkpoints; 0: after each epoch only
  Resume resume = Resume::kAfterRestart;
  TraceFile* trace = nullptr;  // gets the batches of all loaders; null: no trace
};

/// The running epoch, after each step.
struct StepReport {
  std::int64_t epoch = 0;
  std::int64_t step = 0, steps = 0;  // of this rank, in this epoch and this process
  double loss = 0;                   // mean over the epoch so far, over all ranks
  double batches_per_s = 0;          // of all ranks, in this epoch
  double wait_fraction = 0;          // share of the epoch's time that this trainer waited for batches
};

struct TrainingCallbacks {
  std::function<void(const StepReport&)> step;
  std::function<void(const EpochRow&)> epoch;  // after validation
  /// Asked before each step. Where it says true on any rank, all stop behind that step, with a checkpoint.
  std::function<bool()> stop;
};

struct TrainingResult {
  std::shared_ptr<NodeClassifier> model;  // the best by validation accuracy
  std::vector<EpochRow> rows;
  double best_accuracy = 0;  // sampled validation accuracy of `model`
  std::int64_t best_epoch = 0;
  bool stopped = false;  // TrainingCallbacks::stop; all else is as far as it came
};

/// What a run trains: "HeteroSage" where the dataset has several node or edge types, else "GraphSAGE"; without fanouts
/// "features alone", which is GraphSAGE without hops.
std::string model_title(const TrainingOptions& options, const Dataset& dataset);
/// The untrained model of that. Throws kInvalid naming the option.
std::shared_ptr<NodeClassifier> make_model(const TrainingOptions& options, const Dataset& dataset);

/// Throws what the loader, the world and the checkpoint throw, and kInvalid naming the option.
TrainingResult train(World& world, const TrainingOptions& options, const TrainingCallbacks& callbacks = {});

}  // namespace hopfeed
