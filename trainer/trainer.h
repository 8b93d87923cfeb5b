// Classifies nodes, from a dataset folder to a trained model: loaders, model, optimizer, gradients,
// validation, checkpoints. Any number of ranks calls it with the same options;
// examples/node_classification.cc is a program around it and examples/own_training_loop.cc does without it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "stream/loader_options.h"
#include "stream/stream_source.h"
#include "stream/trace_file.h"
#include "trainer/epoch_loop.h"
#include "trainer/node_classifier.h"
#include "trainer/numerics.h"
#include "trainer/world.h"

namespace hopfeed {

struct TrainingOptions {
  LoaderOptions
      loader;  // dataset, fanouts, batch size, workers; rank, world size and splits are filled in here
  std::shared_ptr<const StreamSource> streams = nullptr;  // null: of the folder loader.dataset
  /// Each trainer trains on the seeds of the partition that it is beside (node_split, same_count), in place
  /// of its share of all positions: fewer rows come from other machines, and batches are other ones. It needs
  /// a folder.
  bool local_seeds = false;
  std::string train_split = "train";
  std::string valid_split = "valid";  // the last epoch's model is the best where the dataset has none
  std::int64_t epochs = 20;
  std::int64_t hidden = 128;
  double dropout = 0.3;
  double lr = 0.01;
  double weight_decay = 1e-5;
  std::uint64_t seed = 0;     // of sampling, initial parameters and dropout
  std::filesystem::path out;  // rank 0 keeps <name>.pt (the best model) and <name>.checkpoint here
  std::string name = "model";
  std::int64_t checkpoint_every = 0;  // steps between checkpoints; 0: after each epoch only
  std::int64_t keep = 0;              // checkpoints that stay (checkpoint_files.h); 0: one, with owners three
  Resume resume = Resume::kAfterRestart;
  TraceFile* trace = nullptr;                 // gets the batches of all loaders; null: no trace
  torch::Device device = torch::kCPU;         // of model, optimizer and batches (device.h)
  bool copy_batches = false;                  // on the CPU too, as to a device: for tests
  Precision precision = Precision::kFloat32;  // of the forward pass
  bool deterministic = false;  // the same bits from the same run on a GPU too, more slowly (numerics.h)
  /// Returns the model's accuracy on the validation split over all nodes; all ranks call it together behind
  /// each epoch, in place of sampling that split. Null: it is sampled.
  std::function<double(NodeClassifier& model)> exact_validation = nullptr;
  /// Of learned rows; their tables are called <owners.tables>.<name>.<node type>. Batches are then sampled
  /// with dataset_ids.
  Owners owners = {};
};

struct TrainingResult {
  std::shared_ptr<NodeClassifier> model;  // the best by validation accuracy
  std::vector<EpochRow> rows;
  double best_accuracy = 0;  // sampled validation accuracy of `model`
  std::int64_t best_epoch = 0;
  EpochLoop::Returns returns;  // to checkpoints, since owners had lost learned rows
  bool stopped = false;        // TrainingCallbacks::stop; all else is as far as it came
};

/// Returns what a run trains: "HeteroSage" where the dataset has several node or edge types, else
/// "GraphSAGE"; without fanouts "features alone", which is GraphSAGE without hops.
std::string model_title(const TrainingOptions& options, const DatasetMeta& dataset);
/// Returns the untrained model of model_title(), on its device. Throws kInvalid naming the option.
std::shared_ptr<NodeClassifier> make_model(const TrainingOptions& options, const DatasetMeta& dataset);

/// Trains. Throws what the loader, the world and the checkpoint throw, and kInvalid naming the option.
TrainingResult train(World& world, const TrainingOptions& options, const TrainingCallbacks& callbacks = {});

}  // namespace hopfeed
