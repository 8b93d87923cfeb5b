// A checkpoint is what a run must remember to end as if it had never been interrupted: model, optimizer,
// where in the epoch it stands, what it has measured so far, and each rank's generator (dropout). It is one
// file, written by rank 0 beside the old one and renamed over it, so a kill at any moment leaves a whole
// checkpoint. Sampling needs nothing: a batch is a function of its position.
//
// The file is a LibTorch archive of: "model", "optimizer", "progress" (JSON of TrainingProgress), "settings"
// (JSON), "run" (of the launcher, launched_run.h; there may be none), "generators" (uint8 [ranks, bytes]: of
// the CPU, and behind it that of the model's device, where that is another), and where rows are learned at
// owners "state" (JSON of StateManifest, learned_state.h) and "best" (uint8, model_bytes() of the best epoch
// so far: with the shards that the manifest names one model, whether or not the device computes the same bits
// again). It is read through the host's memory, so a run may go on on another device; to the last bit it ends
// alike on the same kind of device only.
#pragma once
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <string>

#include "trainer/long_work.h"
#include "trainer/settings_told.h"
#include "trainer/training_progress.h"
#include "trainer/world.h"

namespace hopfeed {

/// StateParts are what a checkpoint has beside where rows are learned at owners.
struct StateParts {
  std::string manifest = "";    // empty: there is none
  std::string best_model = "";  // empty: there is none yet
};

/// Saves a checkpoint. All ranks call it together; rank 0 writes, unless its `path` is empty, and then does
/// `commit`. `told` hears of it while that takes long. Throws kIo or kNoSpace naming the file, and what
/// `commit` throws, on all ranks.
void save_checkpoint(const std::filesystem::path& path, torch::nn::Module& model,
                     torch::optim::Optimizer& optimizer, const TrainingProgress& progress,
                     const Settings& settings, World& world, const StateParts& state = {},
                     const std::function<void()>& commit = {}, const WorkTold& told = {});

/// Loads a checkpoint. All ranks call it together; rank 0 reads, so only its machine needs the file. With
/// another number of ranks than before, generators keep the state that they have; so does the device's on
/// another kind of device. Throws kNotFound, kCorrupt, and kInvalid for other settings.
struct LoadedCheckpoint {
  TrainingProgress progress;
  StateParts state;
};
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, torch::nn::Module& model,
                                 torch::optim::Optimizer& optimizer, const Settings& settings, World& world);
/// Returns the manifest alone. Throws kNotFound and kCorrupt.
std::string state_of_checkpoint(const std::filesystem::path& path);
/// Returns LaunchedRun::id of the run that has made it. Throws kNotFound and kCorrupt.
std::string run_of_checkpoint(const std::filesystem::path& path);

/// Saves the parameters alone, of learned rows (dist_embedding.h) the values: PyTorch reads it with
/// torch.jit.load(path).state_dict(), on machines without the model's device too. The file appears whole or
/// not at all. `description` (model_description.h) lies in it beside them.
void save_model(const std::filesystem::path& path, const torch::nn::Module& model,
                const std::string& description = "");
void load_model(const std::filesystem::path& path, torch::nn::Module& model);
/// Returns the description in a model's file; empty where there is none. Throws kNotFound, kCorrupt.
std::string description_text_of_model(const std::filesystem::path& path);
/// The same in memory.
std::string model_bytes(const torch::nn::Module& model, const std::string& description = "");
/// Writes what model_bytes() gave as save_model() writes a model.
void save_model_bytes(const std::filesystem::path& path, const std::string& bytes);
void load_model_bytes(const std::string& bytes, torch::nn::Module& model);

}  // namespace hopfeed
