// See loader_arguments.h.
#include "programs/options/loader_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <stdexcept>

#include "cache/open_file_reader.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/notes.h"
#include "core/program/field_options.h"
#include "core/program/patient_write.h"
#include "core/program/program_main.h"
#include "gpu/device/auto_graph_mode.h"
#include "stream/keyed_seeds.h"
#include "stream/seed_files.h"

namespace hopfeed {
namespace {

constexpr const char *kSampling = "Sampling", *kSpeed = "Speed and memory";  // headings of --help
constexpr const char* kAuto = "auto";                                        // a graph mode of programs alone

const std::set<std::string> kSamplingGroups = {"fanouts", "edge fanouts", "draws",    "samplers", "seeds",
                                               "links",   "negatives",    "contents", "deal",     "seed"};
const std::set<std::string> kSpeedGroups = {"workers",        "cores",           "pages",     "graph mode",
                                            "device batches", "gpu graph cache", "gpu cache", "features",
                                            "partitions",     "check finite"};

std::set<std::string> common(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> both;
  std::ranges::set_intersection(a, b, std::inserter(both, both.end()));
  return both;
}

}  // namespace

void LoaderArguments::add(CommandLine& line, const std::set<std::string>& groups) {
  for (const std::string& group : groups)
    if (!kSamplingGroups.contains(group) && !kSpeedGroups.contains(group))
      throw std::logic_error("there is no group of options '" + group + "'");
  for (const auto& [heading, known] : {std::pair{kSampling, kSamplingGroups}, {kSpeed, kSpeedGroups}}) {
    const CommandLine::Group under(line, heading);
    const std::set<std::string> wanted = common(groups, known);
    std::set<std::string> of_fields = wanted;
    of_fields.erase("partitions");  // partitions_ adds them
    for (const std::string& option : add_field_options(
             line, [this](FieldVisitor& fields) { options_.visit(fields); }, of_fields))
      of_workers_.emplace_back(&line, option);
    for (const std::string& group : wanted) add_by_hand(line, group);
  }
}

void LoaderArguments::add_by_hand(CommandLine& line, const std::string& group) {
  if (group == "draws") {
    line.option(
        "--labor-batches", labor_batches_,
        "With --labor: so many batches in a row take the same neighbours where they can, and are faster "
        "for it",
        {.min = 1, .max = 1 << 20});
    line.stands_for("--labor-batches", "labor_seeds");
  }
  if (group == "samplers") {
    line.option("--plugin", plugin_, "Shared library with a sampler of one's own");
    line.stands_for("--plugin", "plugins");
    of_workers_.emplace_back(&line, "--plugin");
  }
  if (group == "seeds") add_files_of_seeds(line);
  if (group == "links") add_files_of_links(line);
  if (group == "graph mode") add_graph_mode(line, graph_mode_, options_.execution.gpu.gpu_device);
  if (group != "partitions") return;
  line_ = &line;
  for (const std::string& option : partitions_.add(line)) of_workers_.emplace_back(&line, option);
}

void LoaderArguments::add_files_of_seeds(CommandLine& line) {
  line.option("--seeds", seeds_, "FILE.npy in place of a split: original ids, or a bool for each node");
  line.option("--seeds-by-key", seeds_by_key_,
              "FILE in place of a split: a line for each seed, its key in the tables that were imported; or "
              "FILE.npy of int64 keys");
  line.option("--seed-times", seed_times_, "FILE.npy: the time of each seed, in place of an attribute");
  line.option("--seed-weights", seed_weights_,
              "FILE.npy: draw the seeds of an epoch in proportion to these, with replacement");
}

void LoaderArguments::add_files_of_links(CommandLine& line) {
  line.option(
      "--links", links_,
      "With --link: a split of the edge type, or FILE.npy: source and destination of each, [N, 2], or "
      "[2, N] where it cannot be [N, 2]");
  line.option("--labels", labels_, "FILE.npy: an integer label for each link");
  line.option("--link-times", link_times_, "FILE.npy: the time of each link");
  line.stands_for("--labels", "links.labels");
  line.stands_for("--link-times", "links.times");
}

/// What would be read by nobody, and change nothing.
void LoaderArguments::refuse_of_workers() const {
  for (const auto& [line, option] : of_workers_)
    require_valid(
        !line->given(option),
        fmt::format("{} is of sampling on this machine, and with --servers the servers sample; give "
                    "it to hopfeed-server, or leave it out",
                    option));
}

void LoaderArguments::take() {
  take_warnings([program = line_](const std::string& line) { warn(program->in_own_words(line)); });
  options_.execution.partitions = partitions_.take();
  if (options_.execution.partitions.on())
    take_notes([program = line_](const std::string& line) {
      write_patiently(STDERR_FILENO, program->in_own_words(line) + "\n", kLastLinePatienceMs);
    });
  BatchOptions& batch = options_.batch;
  require_valid(labor_batches_ == 1 || batch.labor, "--labor-batches is of --labor; give both");
  if (labor_batches_ > 1) batch.labor_seeds = labor_batches_ * options_.deal.batch_size;
  if (!plugin_.empty()) options_.execution.plugins.push_back(plugin_);
  take_files();
  take_graph_mode();
  tell_how_features_are_read(options_.execution.features.from);
}

void LoaderArguments::take_files() {
  require_valid(seeds_.empty() || seeds_by_key_.empty(),
                "--seeds and --seeds-by-key both say which nodes are seeds; give one of them");
  if (!seeds_.empty()) read_seeds(seeds_, options_);
  if (!seeds_by_key_.empty()) read_seeds_by_key(seeds_by_key_, options_);
  if (!seed_times_.empty()) read_seed_times(seed_times_, options_);
  if (!seed_weights_.empty()) read_seed_weights(seed_weights_, options_);
  const bool file = links_.ends_with(".npy");
  if (!links_.empty() && !file) options_.links = LinkInput{.split = links_};
  if (file) read_links(links_, options_);
  if (!labels_.empty()) read_link_labels(labels_, options_);
  if (!link_times_.empty()) read_link_times(link_times_, options_);
}

/// Servers choose for themselves.
void LoaderArguments::take_graph_mode() {
  GpuOptions& gpu = options_.execution.gpu;
  if (graph_mode_ == kAuto && options_.dataset.empty())
    gpu.gpu_device = 0;
  else
    hopfeed::take_graph_mode(graph_mode_, {options_.dataset}, options_.execution.num_workers, gpu);
  check_gpu_graph_cache(gpu.gpu_graph_cache, gpu.graph_mode);
}

void add_graph_mode(CommandLine& line, std::string& name, int& gpu_device) {
  line.option("--graph-mode", name,
              "Where neighbours are sampled: on the CPU, on a GPU that reads the graph in the host's memory "
              "(uva), on one that has a copy of it (cuda), or on a GPU where one can be used (auto)",
              {.one_of = {"cpu", "uva", "cuda", kAuto}});
  line.option("--gpu-device", gpu_device, "With --graph-mode: number of the GPU",
              {.min = 0, .max = kMaxGpuDevice});
}

void take_graph_mode(const std::string& name, const std::vector<std::string>& datasets,
                     std::int64_t num_workers, GpuOptions& gpu) {
  gpu.cpu_fallback = name == kAuto;
  if (name != kAuto) {
    gpu.graph_mode = graph_mode_from(name);
    return;
  }
  const AutoGraphMode taken =
      auto_graph_mode({.device = gpu.gpu_device, .datasets = datasets, .copies = num_workers});
  std::fprintf(stderr, "--graph-mode auto: %s, %s\n", to_string(taken.mode),
               spelled(taken.why, [](std::string_view field) {
                 return field == "gpu_device" ? "--gpu-device" : std::string(field);
               }).c_str());
  gpu.graph_mode = taken.mode;
  if (taken.mode == GraphMode::kCpu) gpu.gpu_device = 0;
}

void tell_how_features_are_read(FeaturesFrom from) {
  static std::once_flag told;
  if (from != FeaturesFrom::kFile) return;
  std::call_once(told, [] {
    if (const std::string why = why_no_io_uring(); !why.empty())
      std::fprintf(stderr, "io_uring is not to be had here (%s): threads read the features\n", why.c_str());
  });
}

}  // namespace hopfeed
