// node_classification: trains GraphSAGE on a dataset folder through sampling workers, beside a model that
// sees the features alone, and reports the exact accuracy of both. Runs alone or as any number of trainers
// under torchrun.
#include <c10/util/Logging.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/dataset.h"
#include "core/error.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "core/program/progress_bar.h"
#include "examples/node_classification_report.h"
#include "trainer/layerwise_inference.h"
#include "trainer/trainer.h"
#include "trainer/world.h"
#include "worker_mode/core_placement.h"
#include "worker_mode/torchrun_environment.h"

namespace hopfeed {
namespace {

struct Arguments {
  TrainingOptions training{.loader = {.batch_size = 1024, .num_workers = 1}, .name = "model"};
  std::string fanouts = "15,10,5";
  std::optional<std::int64_t> hops;
  std::vector<int> cores;
  bool no_baseline = false;
  bool resume = false;
  std::string backend = "gloo";
  std::int64_t timeout_s = 300;
  std::optional<std::int64_t> trainers;
  int threads = 1;
  std::string trace, json;
};

void add_options(CommandLine& line, Arguments& a) {
  TrainingOptions& t = a.training;
  line.option("--data", t.loader.dataset, "Dataset folder", {.required = true});
  line.option("--out", t.out, "Folder for model.pt, checkpoints and summary.json; default: nothing is kept");
  line.option("--epochs", t.epochs, "Passes over the training nodes");
  line.option("--fanouts", a.fanouts, "Neighbours drawn per hop, one layer each; -1 for all");
  line.option("--hops", a.hops, "Use that many of the fanouts; 0: features alone");
  line.option("--batch-size", t.loader.batch_size, "Seeds per batch and trainer");
  line.option("--hidden", t.hidden, "Width of the hidden layers");
  line.option("--dropout", t.dropout, "Share of hidden units dropped while training");
  line.option("--lr", t.lr, "Adam's learning rate");
  line.option("--weight-decay", t.weight_decay, "Adam's L2 penalty");
  line.option("--seed", t.seed, "Seed of sampling, initial parameters and dropout");
  line.option("--num-workers", t.loader.num_workers, "Sampling processes per trainer");
  line.size_option(
      "--channel-size", t.loader.channel_size,
      "Bytes that batches in shared memory may take (4G, 512M); default: by the memory available");
  line.cores_option("--cores", a.cores,
                    "Cores of this machine to share out among trainers and workers (0,2-3); default: all");
  line.option("--threads", a.threads, "Threads of each trainer while training", {.min = 1, .max = 1024});
  line.flag("--check-finite", t.loader.check_finite,
            "End with an error where a batch has NaN or infinity among its features");
  line.flag("--no-baseline", a.no_baseline, "Do not train the model on features alone");
  line.option("--checkpoint-every", t.checkpoint_every,
              "Steps between checkpoints; 0: after each epoch only");
  line.flag("--resume", a.resume,
            "Go on from the checkpoint in --out (a restart by torchrun does so by itself)");
  line.option("--backend", a.backend,
              "gloo, or nccl for gradients on GPUs (the layers of this version run on the CPU)");
  line.option("--timeout", a.timeout_s, "Seconds that a trainer waits for another before it gives up",
              {.min = 1, .max = 86'400});
  line.option("--trainers", a.trainers, "Refuse to start with another number of trainers");
  line.option(
      "--trace", a.trace,
      "Write a Chrome trace of all trainers and workers of this machine to this file; Perfetto opens it");
  line.option("--json", a.json, "Write the summary to this file too");
}

/// This process and its workers each on cores of their own, where there are enough. Returns the cores that
/// were its own.
cpu_set_t place_on_cores(const std::vector<int>& cores, LoaderOptions& loader) {
  cpu_set_t before;
  CPU_ZERO(&before);
  sched_getaffinity(0, sizeof before, &before);
  CoreQuery query = query_cores(static_cast<int>(loader.num_workers));
  for (const int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &before)) {
      throw Error(ErrorCode::kInvalid, "--cores: this process may not use core " + std::to_string(core));
    }
  }
  if (!cores.empty()) query.cores = cores;
  const CorePlan plan = plan_cores(query);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const int core : plan.trainer) CPU_SET(core, &mine);
  if (!plan.trainer.empty()) sched_setaffinity(0, sizeof mine, &mine);
  for (const std::vector<int>& worker : plan.workers) {
    if (worker.size() == 1) loader.cores.push_back(worker.front());
  }
  return before;
}

/// Bars of the running epoch, on rank 0; a signal stops any.
TrainingCallbacks callbacks(const std::string& title, std::int64_t epochs, World& world) {
  if (world.rank() != 0) return {.step = {}, .epoch = {}, .stop = stop_asked};
  const auto bar = std::make_shared<std::unique_ptr<ProgressBar>>();
  const auto percent = [](double fraction) {
    return std::to_string(static_cast<int>(100 * fraction + 0.5)) + "%";
  };
  const auto decimals = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", value);
    return std::string(text);
  };
  const auto ranks = static_cast<std::uint64_t>(world.size());
  return {.step =
              [=](const StepReport& step) {
                if (!*bar) {
                  *bar = std::make_unique<ProgressBar>(
                      title + " epoch " + std::to_string(step.epoch) + "/" + std::to_string(epochs - 1),
                      static_cast<std::uint64_t>(step.steps) * ranks, ProgressBarOptions{.unit = "batches"});
                }
                (*bar)->note("loss " + decimals(step.loss) + ", waited " + percent(step.wait_fraction));
                (*bar)->set(static_cast<std::uint64_t>(step.step) * ranks);
              },
          .epoch =
              [=](const EpochRow& row) {
                if (*bar)
                  (*bar)->note("loss " + decimals(row.loss) + ", valid " + decimals(row.valid_accuracy) +
                               "; " + to_text(row.waits));
                bar->reset();
              },
          .stop = stop_asked};
}

/// The folder of --out, made where it is missing.
void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error))
    throw_errno("--out: cannot make the folder " + folder.string(), error ? error.value() : ENOTDIR);
}

/// Ends a run that was asked to stop, on all ranks.
void leave_if_stopped(const TrainingResult& result, const std::filesystem::path& out) {
  if (!result.stopped) return;
  throw Interrupted{out.empty() ? "nothing is kept without --out"
                                : "the checkpoint in " + out.string() + " stands, --resume goes on from it"};
}

ModelReport evaluate(const std::string& title, TrainingResult& result, const Dataset& dataset) {
  ProgressBar bar(title + " inference", 1, {.unit = "rows"});
  const auto begin = std::chrono::steady_clock::now();
  const torch::Tensor logits =
      layerwise_inference(*result.model, dataset, [&](std::uint64_t done, std::uint64_t total) {
        stop_if_asked();
        bar.set(done, total);
      });
  bar.finish();
  const auto& splits = dataset.meta().node_types.front().splits;
  const auto accuracy_on = [&](const char* split) -> std::optional<double> {
    if (!splits.contains(split)) return std::nullopt;
    return split_accuracy(logits, dataset, split).value();
  };
  return {
      .title = title,
      .rows = result.rows,
      .best_epoch = result.best_epoch,
      .train_accuracy = accuracy_on("train"),
      .valid_accuracy = accuracy_on("valid"),
      .test_accuracy = accuracy_on("test"),
      .inference_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

/// This trainer's part of the trace; the trainers of one machine share a file. None where `path` is empty.
std::unique_ptr<TraceFile> open_trace(const std::string& path, const World& world) {
  if (path.empty()) return nullptr;
  const LocalRanks local = local_ranks();
  const std::int64_t first = world.rank() - local.rank;
  return std::make_unique<TraceFile>(
      TraceOptions{.path = trace_of_machine(path, first), .rank = world.rank()});
}

void finish_trace(TraceFile* trace, World& world) {
  if (trace == nullptr) return;
  TracePart mine = trace->close();
  const torch::Tensor all = world.gather(torch::from_blob(&mine, {sizeof mine}, torch::kUInt8));
  const LocalRanks local = local_ranks();
  if (local.rank == 0) {
    const std::span parts(static_cast<const TracePart*>(all.const_data_ptr()),
                          static_cast<std::size_t>(world.size()));
    trace->join(parts.subspan(static_cast<std::size_t>(world.rank()), static_cast<std::size_t>(local.world)));
  }
  world.sum({0});  // joined: the parts may go
}

nlohmann::json options_json(const Arguments& a) {
  const TrainingOptions& t = a.training;
  return {{"fanouts", t.loader.batch.fanouts},
          {"batch_size", t.loader.batch_size},
          {"hidden", t.hidden},
          {"dropout", t.dropout},
          {"lr", t.lr},
          {"weight_decay", t.weight_decay},
          {"seed", t.seed},
          {"num_workers", t.loader.num_workers},
          {"channel_size", t.loader.channel_size},
          {"threads", a.threads},
          {"backend", a.backend},
          {"checkpoint_every", t.checkpoint_every}};
}

void run(Arguments& arguments) {
  TrainingOptions& training = arguments.training;
  training.loader.batch.fanouts = parse_fanouts(arguments.fanouts);
  training.loader.batch.validate();
  training.resume = arguments.resume ? Resume::kAlways : Resume::kAfterRestart;
  if (arguments.hops) {
    if (*arguments.hops < 0 || *arguments.hops > std::ssize(training.loader.batch.fanouts)) {
      throw Error(ErrorCode::kInvalid,
                  "--hops is " + std::to_string(*arguments.hops) + ", but --fanouts has " +
                      std::to_string(training.loader.batch.fanouts.size()) + " numbers; give one per hop");
    }
    training.loader.batch.fanouts.resize(static_cast<std::size_t>(*arguments.hops));
  }
  const bool features_alone = training.loader.batch.fanouts.empty();
  const Dataset dataset(training.loader.dataset);  // a wrong path is said before trainers are waited for
  const cpu_set_t all_cores = place_on_cores(arguments.cores, training.loader);
  at::set_num_threads(arguments.threads);
  World world({.backend = arguments.backend,
               .timeout = std::chrono::seconds(arguments.timeout_s),
               .expected_size = arguments.trainers});

  // Opened before the work, so that a path that cannot be written is said at once.
  const bool reports = world.rank() == 0;
  if (reports && !training.out.empty()) make_folder(training.out);
  JsonReport summary_file(reports && !training.out.empty() ? (training.out / "summary.json").string() : "");
  JsonReport json_file(reports ? arguments.json : "");

  const std::unique_ptr<TraceFile> trace = open_trace(arguments.trace, world);
  training.trace = trace.get();

  std::optional<TrainingResult> baseline;
  if (!arguments.no_baseline && !features_alone) {
    TrainingOptions alone = training;
    alone.loader.batch.fanouts = {};
    alone.name = "baseline";
    baseline = train(world, alone, callbacks("features alone", training.epochs, world));
    leave_if_stopped(*baseline, training.out);
  }
  const std::string title = features_alone ? "features alone" : "GraphSAGE";
  TrainingResult result = train(world, training, callbacks(title, training.epochs, world));
  leave_if_stopped(result, training.out);
  finish_trace(trace.get(), world);
  if (world.rank() != 0) return;

  sched_setaffinity(0, sizeof all_cores, &all_cores);  // the others are done: inference may use the machine
  at::set_num_threads(CPU_COUNT(&all_cores));
  RunReport summary{.dataset = dataset.meta().name,
                    .trainers = world.size(),
                    .options = options_json(arguments),
                    .model = {},
                    .baseline = {}};
  if (baseline) summary.baseline = evaluate("features alone", *baseline, dataset);
  summary.model = evaluate(title, result, dataset);
  summary_file.write(to_json(summary));
  json_file.write(to_json(summary));
  std::fputs(to_table(summary).c_str(), stdout);
}

bool torchrun_environment_is_set() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr; }

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  stop_on_signals();
  // A trainer outlives no launcher: killed ones cannot tell their children. (One that was killed before this line has taken
  // the store with it, which the trainer then looks for in vain.)
  if (torchrun_environment_is_set()) prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Tensors of a step are as large as those of the step before: keep their pages instead of returning and
  // zeroing them.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);  // what goes wrong is said once, by us
  c10::initLogging();
  CommandLine line(
      "node_classification",
      "Trains GraphSAGE on a dataset through sampling workers and shared memory, and a model on the features "
      "alone\n"
      "beside it; then computes the exact accuracy of both for all nodes.\n\n"
      "Example: torchrun --no-python --nproc-per-node=2 node_classification --data quickstart/dataset --out "
      "quickstart");
  Arguments arguments;
  add_options(line, arguments);
  line.action([&] { translate_torch_errors("training", [&] { run(arguments); }); });
  return program_main(line, argc, argv);
}
