// See training_process.h.
#include "examples/training_process.h"

#include <c10/util/Logging.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/program/progress_bar.h"
#include "core/program/stop_signals.h"
#include "examples/launch_environment.h"
#include "stream/torchrun_environment.h"
#include "trainer/device.h"
#include "trainer/earlier_run.h"
#include "worker_mode/core_placement.h"

namespace hopfeed {
namespace {

bool torchrun_environment_is_set() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr; }

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error))
    throw_errno("--out: cannot make the folder " + folder.string(), error ? error.value() : ENOTDIR);
}

/// Empty where none is wanted from this rank.
std::string summary_path(const std::filesystem::path& out, const World& world) {
  if (world.rank() != 0 || out.empty()) return "";
  make_folder(out);
  return (out / "summary.json").string();
}

}  // namespace

void add_cores_option(CommandLine& line, ProcessArguments& a) {
  line.numbers_option("--cores", a.cores,
                      "Cores of this machine to share out among trainers and workers (0,2-3); default: all");
}

void add_trainer_options(CommandLine& line, ProcessArguments& a) {
  line.flag("--resume", a.resume,
            "Go on from the checkpoint in --out (a restart by torchrun does so by itself)");
  line.option("--device", a.device,
              "cpu, cuda (of several GPUs each trainer of a machine takes its own), cuda:N, or auto: a GPU "
              "where there is one that Torch can use, else the CPU");
  line.option("--precision", a.precision,
              "float32, or bf16: products of matrices in bfloat16, sums and losses in float32",
              {.one_of = {"float32", "bf16"}});
  line.flag("--deterministic", a.deterministic,
            "The same losses to the last bit from the same run on a GPU too, more slowly (sets "
            "CUBLAS_WORKSPACE_CONFIG=:4096:8 where it is not set)");
  line.option("--backend", a.backend,
              "How trainers exchange gradients: gloo, nccl, or auto: nccl where each has a GPU to itself");
  line.option("--timeout", a.timeout_s, "Seconds that a trainer waits for another before it gives up",
              {.min = 1, .max = 86'400});
  line.option("--trainers", a.trainers, "Refuse to start with another number of trainers");
}

void add_checkpoint_options(CommandLine& line, std::int64_t& every, std::int64_t& keep) {
  line.option("--checkpoint-every", every, "Steps between checkpoints; 0: after each epoch only");
  line.option("--keep", keep,
              "Checkpoints that stay: the last one, and before it <name>.checkpoint.1 and on; 0: one, with "
              "--owners three",
              {.min = 0, .max = 1000});
}

void check_checkpoint_options(std::int64_t every, std::int64_t keep, const std::filesystem::path& out) {
  require_valid(every == 0 || !out.empty(),
                "--checkpoint-every needs --out, the folder for checkpoints; give both");
  require_valid(keep == 0 || !out.empty(), "--keep needs --out, the folder for checkpoints; give both");
}

torch::Device device_of(const ProcessArguments& a) {
  if (a.deterministic) setenv(kCublasVariable, kCublasSetting, 0);  // before cuBLAS is loaded
  const ChosenDevice chosen = choose_device(a.device);
  const auto env = torchrun_environment();
  if (!chosen.note.empty() && (!env || env->rank == 0)) std::fprintf(stderr, "%s\n", chosen.note.c_str());
  return chosen.device;
}

void bring_batches(torch::Device gpu, LocalExecution& execution) {
  execution.gpu.device_batches = execution.gpu.graph_mode != GraphMode::kCpu;
  execution.gpu.pin_slots = !execution.gpu.device_batches;
  if (!execution.gpu.device_batches) return;
  execution.gpu.gpu_device = gpu.index();
  execution.gpu.cpu_fallback = false;  // what loses the GPU loses the trainer on it
}

WorldOptions world_options(const ProcessArguments& a, torch::Device device) {
  return {.backend = a.backend,
          .device = device,
          .timeout = std::chrono::seconds(a.timeout_s),
          .expected_size = a.trainers};
}

Resume resume_of(const ProcessArguments& a) { return a.resume ? Resume::kAlways : Resume::kAfterRestart; }

void begin_run(World& world, const ProcessArguments& a, const std::filesystem::path& out,
               const std::vector<std::string>& names) {
  if (resume_of(a) == Resume::kAfterRestart) put_earlier_runs_aside(world, out, names);
}

std::string four_decimals(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

cpu_set_t cores_of_run(const std::vector<int>& cores) {
  cpu_set_t own, named;
  CPU_ZERO(&own);
  CPU_ZERO(&named);
  sched_getaffinity(0, sizeof own, &own);
  for (const int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &own))
      throw Error(ErrorCode::kInvalid, "--cores: this process may not use core " + std::to_string(core));
    CPU_SET(core, &named);
  }
  return cores.empty() ? own : named;
}

cpu_set_t place_on_cores(const std::vector<int>& cores, LoaderOptions& loader) {
  const cpu_set_t all = cores_of_run(cores);
  // Over servers nobody samples here.
  CoreQuery query = query_cores(loader.dataset.empty() ? 0 : static_cast<int>(loader.execution.num_workers));
  if (!cores.empty()) query.cores = cores;
  const CorePlan plan = plan_cores(query);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const int core : plan.trainer) CPU_SET(core, &mine);
  if (!plan.trainer.empty()) sched_setaffinity(0, sizeof mine, &mine);
  for (const std::vector<int>& worker : plan.workers) {
    if (worker.size() == 1) loader.execution.cores.push_back(worker.front());
  }
  return all;
}

TrainingCallbacks callbacks(const std::string& title, std::int64_t epochs, World& world,
                            std::function<std::string(const EpochRow&)> epoch_note) {
  if (world.rank() != 0) return {.step = {}, .epoch = {}, .stop = stop_asked, .long_work = {}};
  const auto bar = std::make_shared<std::unique_ptr<ProgressBar>>();
  const auto percent = [](double fraction) {
    return std::to_string(static_cast<int>(100 * fraction + 0.5)) + "%";
  };
  const auto ranks = static_cast<std::uint64_t>(world.size());
  const auto said = std::make_shared<std::chrono::seconds>(0);
  return {.step =
              [=](const StepReport& step) {
                if (!*bar) {
                  *bar = std::make_unique<ProgressBar>(
                      title + " epoch " + std::to_string(step.epoch) + "/" + std::to_string(epochs - 1),
                      static_cast<std::uint64_t>(step.steps) * ranks, ProgressBarOptions{.unit = "batches"});
                }
                (*bar)->note("loss " + four_decimals(step.loss) + ", waited " + percent(step.wait_fraction));
                (*bar)->set(static_cast<std::uint64_t>(step.step) * ranks);
              },
          .epoch =
              [=](const EpochRow& row) {
                if (*bar) (*bar)->note(epoch_note(row));
                bar->reset();
              },
          .stop = stop_asked,
          .long_work =
              [=](const std::string& what, std::chrono::seconds so_far) {
                if (*bar) {
                  (*bar)->note(what + " for " + std::to_string(so_far.count()) + " s");
                  (*bar)->add(0);
                } else if (so_far - *said >= std::chrono::seconds(10) || so_far < *said) {
                  *said = so_far;
                  std::fprintf(stderr, "%s: %s for %d s\n", title.c_str(), what.c_str(),
                               static_cast<int>(so_far.count()));
                }
              }};
}

std::function<void()> end_of_waiting(const std::filesystem::path& out) {
  return [out] {
    if (!stop_asked_for(std::chrono::seconds(1))) return;
    throw Interrupted{"it was waiting for a batch; " +
                      (out.empty() ? "nothing is kept without --out"
                                   : "what was kept in " + out.string() + " so far stands")};
  };
}

void leave_if_stopped(bool stopped, const std::filesystem::path& out) {
  if (!stopped) return;
  throw Interrupted{out.empty() ? "nothing is kept without --out"
                                : "the checkpoint in " + out.string() + " stands, --resume goes on from it"};
}

Summary::Summary(const std::filesystem::path& out, const ProcessArguments& arguments, const World& world)
    : summary_file_(summary_path(out, world)), json_file_(world.rank() == 0 ? arguments.json : "") {}

void Summary::write(const nlohmann::json& summary) {
  summary_file_.write(summary);
  json_file_.write(summary);
}

int training_main(CommandLine& line, int argc, char** argv, const std::function<void()>& run) {
  stop_on_signals();
  // A trainer outlives no launcher: killed ones cannot tell their children. (One that was killed before this
  // line has taken the store with it, which the trainer then looks for in vain.)
  if (torchrun_environment_is_set()) prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Tensors of a step are as large as those of the step before: keep their pages instead of returning and
  // zeroing them.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);  // what goes wrong is said once, by us
  c10::initLogging();
  line.action([&] { translate_torch_errors("training", run); });
  std::vector<std::string> words{argv + 1, argv + argc};
  try {
    words = with_launch_environment(words, [&](const char* option) { return line.has(option); });
  } catch (const Error& error) {
    line.action([error] { throw error; });  // told as all errors are, behind --help
  }
  std::vector<char*> all{argv[0]};
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return program_main(line, static_cast<int>(all.size()) - 1, all.data());
}

}  // namespace hopfeed
