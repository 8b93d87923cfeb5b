// Predicts links, from a dataset folder to a trained model: loaders of links with negatives, model,
// optimizers of parameters and learned rows, gradients, ROC-AUC on validation and test links after each
// epoch, checkpoints. It is the counterpart of trainer.h; any number of ranks calls it with the same options,
// and a run that was killed goes on from its checkpoint as there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "stream/loader_options.h"
#include "stream/stream_source.h"
#include "trainer/epoch_loop.h"
#include "trainer/link_model.h"
#include "trainer/numerics.h"
#include "trainer/world.h"

namespace hopfeed {

struct LinkTrainingOptions {
  /// It has dataset, fanouts, batch size, workers, and the links' type, negatives and exclusion (batch.link);
  /// rank, world size and splits are filled in here. A split with labels brings its own negatives, which have
  /// label 0: for it none are drawn.
  LoaderOptions loader;
  std::shared_ptr<const StreamSource> streams = nullptr;  // null: of the folder loader.dataset
  std::string train_split = "train";
  std::string valid_split = "valid",
              test_split = "test";  // ROC-AUC of it is left out where the edge type has none
  std::optional<std::vector<std::int64_t>>
      test_pairs;  // in place of the test split: [2P] as LinkInput::pairs
  std::int64_t epochs = 20;
  std::int64_t max_batches = 0;  // of an epoch, over all ranks; 0: all
  std::int64_t hidden = 64;
  double dropout = 0;
  double lr = 0.001, embedding_lr = 0.001;  // Adam's, of parameters and of learned rows
  std::uint64_t seed = 0;                   // of sampling, first values and dropout
  std::filesystem::path out;  // rank 0 keeps <name>.pt (the best model) and <name>.checkpoint here
  std::string name = "model";
  std::int64_t checkpoint_every = 0;  // these two are as in TrainingOptions
  std::int64_t keep = 0;
  Resume resume = Resume::kAfterRestart;
  // These are as in TrainingOptions. Learned rows stay in the host's memory.
  torch::Device device = torch::kCPU;
  bool copy_batches = false;
  Precision precision = Precision::kFloat32;
  bool deterministic = false;
  Owners owners = {};
};

struct LinkTrainingResult {
  std::vector<EpochRow> rows;
  std::int64_t best_epoch = 0;  // by ROC-AUC on the validation links; without any the last
  std::int64_t learned_rows = 0;
  EpochLoop::Returns returns;  // to checkpoints, since owners had lost learned rows
  bool stopped = false;        // TrainingCallbacks::stop; all else is as far as it came
};

/// Returns whether the run tells ROC-AUC on the links of a split.
bool has_links(const LinkTrainingOptions& options, const DatasetMeta& dataset, const std::string& split);

/// Trains. Throws what the loader, the world and the checkpoint throw, and kInvalid naming the option.
LinkTrainingResult train_links(World& world, const LinkTrainingOptions& options,
                               const TrainingCallbacks& callbacks = {});

}  // namespace hopfeed
