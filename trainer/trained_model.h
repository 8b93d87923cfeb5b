// Reads a trained model to infer with, on the dataset that it was trained on or on another one of the same
// types. Rows that training has learned come from model.pt, or, where they lay at owners, from the shards
// that its checkpoint names, without an owner running.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/dataset/dataset.h"
#include "trainer/model_description.h"

namespace hopfeed {

struct TrainedModel {
  std::filesystem::path file;                // model.pt
  std::vector<std::filesystem::path> state;  // folders of the owners' shards (hopfeed-server --state)
  std::filesystem::path trained_on;          // dataset of the training, whose keys match rows; or empty
};

struct LoadedRows {
  std::int64_t here = 0;  // rows that have a node in this machine's partitions
  std::string digest;     // of all rows, the same on all machines; empty: the model has none
};

/// Loads parameters and learned rows into `model`, whose rows lie whole here. Learned rows are matched by
/// original id where the dataset is the one of the training, else by key; those of nodes that are not in this
/// machine's partitions are left out. Throws kInvalid where rows cannot be matched, kNotFound where shards or
/// the checkpoint are not there, kCorrupt.
LoadedRows load_trained_model(const TrainedModel& trained, const ModelDescription& description,
                              const Dataset& dataset, torch::nn::Module& model);

}  // namespace hopfeed
