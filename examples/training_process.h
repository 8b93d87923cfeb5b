// The programs that train share this as processes, whatever they train: options, cores, trainers, progress
// bars, what they leave behind, and main.
#pragma once
#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "trainer/epoch_loop.h"
#include "trainer/numerics.h"
#include "trainer/world.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// ProcessArguments are options that all of them have beside those of the training.
struct ProcessArguments {
  std::vector<int> cores;
  int threads = 1;
  bool no_baseline = false, resume = false;
  std::string backend = "auto";
  std::string device = "cpu", precision = "float32";
  bool deterministic = false;
  std::int64_t timeout_s = 300;
  std::optional<std::int64_t> trainers;
  std::string json;
};
/// Adds --cores.
void add_cores_option(CommandLine& line, ProcessArguments& arguments);
/// Adds the options from --resume to --trainers.
void add_trainer_options(CommandLine& line, ProcessArguments& arguments);

/// Adds --checkpoint-every and --keep.
void add_checkpoint_options(CommandLine& line, std::int64_t& every, std::int64_t& keep);
/// Throws kInvalid where they are given and there is no folder for checkpoints.
void check_checkpoint_options(std::int64_t every, std::int64_t keep, const std::filesystem::path& out);

/// Returns the device of --device, and says once what auto took. It comes before anything else of Torch.
torch::Device device_of(const ProcessArguments& arguments);
/// Batches of a model that computes on a GPU: sampled there they stay there, else their slots are pinned.
void bring_batches(torch::Device gpu, LocalExecution& execution);
/// Where and how a model is trained, into its TrainingOptions or LinkTrainingOptions.
template <class Options>
void compute_on(torch::Device device, const ProcessArguments& arguments, Options& options) {
  options.device = device;
  options.precision = precision_of(arguments.precision);
  options.deterministic = arguments.deterministic;
  if (device.is_cuda()) bring_batches(device, options.loader.execution);
}
WorldOptions world_options(const ProcessArguments& arguments, torch::Device device);
Resume resume_of(const ProcessArguments& arguments);
/// Comes before anything is trained: without --resume, the checkpoints that earlier runs have left in `out`
/// of the models of these names step aside. All ranks call it together.
void begin_run(World& world, const ProcessArguments& arguments, const std::filesystem::path& out,
               const std::vector<std::string>& names);

/// Returns the cores of --cores; none named: all that this process may use. Throws kInvalid naming one that
/// it may not.
cpu_set_t cores_of_run(const std::vector<int>& cores);
/// Places this process and its workers each on cores of their own, where there are enough. Returns all cores
/// of the run.
cpu_set_t place_on_cores(const std::vector<int>& cores, LoaderOptions& loader);

/// Draws bars of the running epoch, on rank 0, which end with `epoch_note`; a signal stops any.
TrainingCallbacks callbacks(const std::string& title, std::int64_t epochs, World& world,
                            std::function<std::string(const EpochRow&)> epoch_note);
std::string four_decimals(double value);

/// Returns a LoaderOptions::while_waiting that ends a trainer that was asked to stop a second ago and waits
/// for a batch all the same, which may never come. Else all stop together, behind the step.
std::function<void()> end_of_waiting(const std::filesystem::path& out);

/// Ends a run that was asked to stop, on all ranks.
void leave_if_stopped(bool stopped, const std::filesystem::path& out);

/// A Summary is summary.json in the folder of --out, which is made, and the file of --json, from rank 0. It
/// is opened before the work, so that a path that cannot be written is said at once.
class Summary {
 public:
  Summary(const std::filesystem::path& out, const ProcessArguments& arguments, const World& world);
  void write(const nlohmann::json& summary);

 private:
  JsonReport summary_file_, json_file_;
};

/// Runs such a program: `run` is called with the command line read.
int training_main(CommandLine& line, int argc, char** argv, const std::function<void()>& run);

}  // namespace hopfeed
