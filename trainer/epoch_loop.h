// An EpochLoop runs the epochs of a training run, whatever is trained: steps over a stream's batches on all
// ranks, scores behind each epoch, the best epoch's model, checkpoints, times, and the wish to stop. What a
// step learns from and what a score is, a TrainingTask says (trainer.cc, link_trainer.cc).
//
// A run is a function of its options: killed at any moment and started again by torchrun, it takes its last
// checkpoint and ends with the same losses, to the last bit. Where an owner of learned rows loses them, all
// ranks go back to the last checkpoint in the same processes, with the same end.
#pragma once
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/batch/batch_stream.h"
#include "trainer/agreement.h"
#include "trainer/batch_prefetcher.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_files.h"
#include "trainer/gradient_reducer.h"
#include "trainer/learned_state.h"
#include "trainer/training_progress.h"
#include "trainer/world.h"

namespace hopfeed {

/// Resume says when to go on from the checkpoint in the output folder.
enum class Resume {
  kAfterRestart,  // only where the launcher has restarted this run, and only from its own; a checkpoint of
                  // an earlier run becomes <name>.checkpoint.old (earlier_run.h)
  kAlways,        // wherever there is one
};

/// A StepReport tells the running epoch, after each step.
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
  /// It is asked before each step. Where it says true on any rank, all stop behind that step, with a
  /// checkpoint.
  std::function<bool()> stop;
  /// Is told about once a second while a checkpoint is written, or gone back to, for longer than that.
  std::function<void(const std::string& what, std::chrono::seconds so_far)> long_work;
};

struct EpochLoopOptions {
  Settings settings;  // what a checkpoint must agree with
  std::int64_t epochs = 1;
  std::int64_t max_batches = 0;       // of an epoch, over all ranks; 0: all
  std::int64_t checkpoint_every = 0;  // steps between checkpoints; 0: after each epoch only
  std::int64_t keep = 0;              // checkpoints that stay; 0: one, with owners three
  bool restores_best = false;         // restore_best() will be called
  std::uint64_t seed = 0;             // of dropout
  std::filesystem::path out;  // rank 0 keeps <name>.pt and <name>.checkpoint here; empty: nothing is kept
  std::string name = "model";
  Resume resume = Resume::kAfterRestart;
  torch::Device device = torch::kCPU;  // of the model; batches are copied there, one ahead of the step
  bool copy_batches = false;           // on the CPU too
  Owners owners;                       // of learned rows
  DatasetMeta dataset;                 // whose rows these are
  std::string description = "";        // of the model, for its file (model_description.h)
};

/// BatchLoss is the loss of one batch: the sum over what is learned from (labelled seeds, links), and how
/// many these are.
struct BatchLoss {
  torch::Tensor sum;
  std::int64_t count = 0;
};

/// A TrainingTask is what a run trains. All ranks call all of it in the same order.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// Returns a batch as loss() and those who evaluate read it. It is called one batch ahead.
  virtual AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) = 0;
  virtual BatchLoss loss(const AnyBatchTensors& batch) = 0;
  /// Asks owners for the rows that a batch reads. It is called before its loss(), one batch ahead of it.
  virtual void look(const AnyBatchTensors& /*batch*/) {}
  /// Does, behind the optimizer's step, what the optimizer does not know.
  virtual void after_step() {}
  /// Writes an epoch's scores into the row, behind its steps, and returns the score of which the best epoch
  /// has most; nothing makes the last epoch the best. Where stop is agreed on meanwhile, what it returns is
  /// not looked at.
  virtual std::optional<double> score(EpochRow& row) = 0;
};

class EpochLoop {
 public:
  /// `stream` has the batches that are learned from. It and `world`, `callbacks`, `model` and `optimizer`
  /// must outlive the loop. All ranks make one together; throws kInvalid where one of them has other options
  /// or batches than rank 0 (agreement.h).
  EpochLoop(World& world, EpochLoopOptions options, const TrainingCallbacks& callbacks, BatchStream& stream,
            torch::nn::Module& model, torch::optim::Optimizer& optimizer);

  /// Runs to the last epoch, or to where all ranks agree to stop (World::stop_agreed), from the checkpoint if
  /// there is one to go on from.
  void run(TrainingTask& task);
  /// Evaluates, for TrainingTask::score: calls `each` with this rank's share of the stream's batches, the
  /// same in each epoch, with the model set to evaluate and without gradients. Ends early where this rank is
  /// asked to stop; all know of it after their next sum.
  void evaluate(TrainingTask& task, BatchStream& stream,
                const std::function<void(const AnyBatchTensors&)>& each);

  /// Takes the model back to the best epoch, and its rows at owners with it; where these lie whole, and the
  /// best epoch before a resume, on rank 0 alone.
  void restore_best();

  const TrainingProgress& progress() const { return progress_; }
  /// Returns how often all went back, and how many batches were computed again.
  struct Returns {
    std::int64_t times = 0, batches = 0;
  };
  const Returns& returns() const { return returns_; }
  /// Returns how many rows at owners were learned, at the last checkpoint; on rank 0.
  std::int64_t learned_rows() const { return manifest_.now.rows(); }
  /// Returns the file of the best epoch's model, on rank 0; call it only with an output folder.
  std::filesystem::path model_path() const { return options_.out / (options_.name + ".pt"); }

 private:
  void resume();
  void begin_afresh();
  void keep_best();
  void restore_best_rows();
  StateManifest manifest_in(const std::filesystem::path& path) const;
  WorkTold told(std::string what) const;
  void on_rank_0(const std::string& what, const std::function<void()>& work);
  std::optional<StateManifest> save_state();
  void checkpoint();
  std::int64_t kept() const;
  void remove_old_state();
  void found_again();
  void require_tries(std::int64_t tries) const;
  void go_back();
  void load();
  template <class Body>
  void unless_lost(const Body& body);
  std::int64_t steps_of_epoch() const;
  void train_epoch(TrainingTask& task);
  void train_batch(TrainingTask& task, const AnyBatchTensors& batch);
  enum class Batches { kLearned, kEvaluated };
  BatchPrefetcher prefetcher(TrainingTask& task, BatchStream& stream, std::int64_t most, Batches batches);
  void tell_of_nonfinite(double loss) const;
  bool stop_asked() const { return callbacks_.stop && callbacks_.stop(); }
  void look_for_stop();
  std::int64_t batches_so_far() const;
  double mean_loss() const;
  void report_step(std::int64_t step, std::int64_t steps) const;
  void finish_epoch(TrainingTask& task);
  void measure(EpochRow& row);

  World& world_;
  EpochLoopOptions options_;
  const TrainingCallbacks& callbacks_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  GradientReducer reducer_;
  BatchStream& stream_;
  std::optional<CopyStream> copies_;  // none where batches are read in their slots
  LearnedState state_;
  CheckpointFiles files_;            // rank 0's
  std::deque<StateManifest> older_;  // of the checkpoints before the last one; on rank 0
  StateManifest manifest_;           // of the last checkpoint; on rank 0
  std::string best_model_;           // model_bytes() of the best epoch; with owners a checkpoint has it too
  bool lost_ = false;                // an owner has lost what this rank needs
  std::string why_lost_;
  Returns returns_;
  std::int64_t returns_in_vain_ = 0;  // since the last checkpoint
  TrainingProgress progress_;
  TierCounts tiers_;                               // as below
  GpuUse gpu_;                                     // its batches as below; its memory is that of now
  std::int64_t feature_rows_ = 0, held_rows_ = 0;  // of the epoch, as far as this process has trained it
};

}  // namespace hopfeed
