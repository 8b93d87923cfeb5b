// See classification_program.h.
#include "examples/classification_program.h"

#include <sched.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "core/dataset/dataset.h"
#include "examples/classification_report.h"
#include "examples/epoch_report.h"
#include "examples/exact_validation.h"
#include "stream/torchrun_environment.h"
#include "trainer/layerwise_inference.h"
#include "trainer/peer_addresses.h"
#include "trainer/world.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

std::string epoch_note(const EpochRow& row) {
  return "loss " + four_decimals(row.loss) + ", valid " + four_decimals(row.valid_accuracy) + "; " +
         waits_text(row);
}

DatasetMeta meta_of(const TrainingOptions& training) {
  return training.streams ? training.streams->meta() : LocalStreams(training.loader.dataset).meta();
}

std::string title_of(const ModelRun& run) {
  return run.title.empty() ? model_title(run.training, meta_of(run.training)) : run.title;
}

/// Servers do not give the whole graph; machines with partitions need a folder that others are served.
/// Returns what exact accuracies lack; empty where they are possible.
std::string exact_needs(const ClassificationArguments& a, const TrainingOptions& training) {
  if (a.servers.remote()) return "the dataset folder (--data)";
  if (!training.loader.execution.partitions.on() || !a.inference.results.empty()) return "";
  return "--results, a folder that this machine's hopfeed-server --results serves to the others";
}

/// Sampled: of the validation behind each epoch, where exact accuracies lack something.
ModelReport report_of(const ModelRun& run, const TrainingResult& result, const std::string& lacking) {
  return {.title = title_of(run),
          .prefix = run.prefix,
          .rows = result.rows,
          .best_epoch = result.best_epoch,
          .returns = result.returns.times,
          .batches_again = result.returns.batches,
          .exact_needs = lacking};
}

ExactValidation validation_of(const ClassificationArguments& a, const TrainingOptions& training, int threads,
                              const std::string& title) {
  return {.dataset = training.loader.dataset,
          .node_type = training.loader.node_type,
          .peers = training.loader.execution.partitions,
          .layers = a.inference.results,
          .threads = threads,
          .title = title + " inference"};
}

/// Exact, over all nodes, and by splits of the labelled type. All ranks call it together.
ModelReport evaluate(World& world, const ModelRun& run, const TrainingResult& result,
                     const ExactValidation& task) {
  const auto begin = std::chrono::steady_clock::now();
  const std::map<std::string, Accuracy> exact = exact_accuracies(world, *result.model, task);
  const auto accuracy_on = [&](const char* split) -> std::optional<double> {
    const auto found = exact.find(split);
    if (found == exact.end()) return std::nullopt;
    return found->second.value();
  };
  return {
      .title = title_of(run),
      .prefix = run.prefix,
      .rows = result.rows,
      .best_epoch = result.best_epoch,
      .train_accuracy = accuracy_on("train"),
      .valid_accuracy = accuracy_on("valid"),
      .test_accuracy = accuracy_on("test"),
      .inference_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
      .returns = result.returns.times,
      .batches_again = result.returns.batches};
}

/// Those that are known to be on this machine: else each trainer is one of its own.
LocalRanks ranks_here() {
  const LocalRanks local = local_ranks();
  return local.known ? local : LocalRanks{};
}

/// This trainer's part of the trace; the trainers of one machine share a file. None where `path` is empty.
std::unique_ptr<TraceFile> open_trace(const std::string& path, const World& world) {
  if (path.empty()) return nullptr;
  const LocalRanks local = ranks_here();
  const std::int64_t first = world.rank() - local.rank;
  return std::make_unique<TraceFile>(
      TraceOptions{.path = trace_of_machine(path, first), .rank = world.rank()});
}

void finish_trace(TraceFile* trace, World& world) {
  if (trace == nullptr) return;
  TracePart mine = trace->close();
  const torch::Tensor all = world.gather(torch::from_blob(&mine, {sizeof mine}, torch::kUInt8));
  const LocalRanks local = ranks_here();
  if (local.rank == 0) {
    const std::span parts(static_cast<const TracePart*>(all.const_data_ptr()),
                          static_cast<std::size_t>(world.size()));
    trace->join(parts.subspan(static_cast<std::size_t>(world.rank()), static_cast<std::size_t>(local.world)));
  }
  world.sum({0});  // joined: the parts may go
}

nlohmann::json options_json(const ClassificationArguments& a, const TrainingOptions& t) {
  nlohmann::json json = {{"fanouts", t.loader.batch.fanouts},
                         {"batch_size", t.loader.deal.batch_size},
                         {"hidden", t.hidden},
                         {"dropout", t.dropout},
                         {"lr", t.lr},
                         {"weight_decay", t.weight_decay},
                         {"seed", t.seed},
                         {"num_workers", t.loader.execution.num_workers},
                         {"channel_size", t.loader.execution.channel_size},
                         {"threads", a.process.threads},
                         {"backend", a.process.backend},
                         {"device", t.device.str()},
                         {"precision", to_string(t.precision)},
                         {"deterministic", t.deterministic},
                         {"checkpoint_every", t.checkpoint_every}};
  if (t.local_seeds) json["deal"] = "local";
  if (!t.loader.batch.edge_fanouts.empty()) json["edge_fanouts"] = t.loader.batch.edge_fanouts;
  return json;
}

TrainingOptions options_of(const ModelDescription& model, TrainingOptions training) {
  training.loader.batch.fanouts = model.fanouts;
  training.loader.batch.edge_fanouts = model.edge_fanouts;
  training.loader.node_type = model.type;
  training.hidden = model.hidden;
  training.dropout = model.dropout;
  training.seed = model.seed;
  return training;
}

/// What the options say of a model whose file says nothing.
ModelDescription described_by_flags(const TrainingOptions& training) {
  return {.kind = "nodes",
          .type = training.loader.node_type,
          .fanouts = training.loader.batch.fanouts,
          .edge_fanouts = training.loader.batch.edge_fanouts,
          .hidden = training.hidden,
          .dropout = training.dropout,
          .seed = training.seed};
}

InferenceTask inference_task(const ClassificationArguments& a, const TrainingOptions& training,
                             const std::filesystem::path& model, torch::Device device) {
  InferenceTask task{.dataset = training.loader.dataset,
                     .model = model,
                     .kind = "nodes",
                     .peers = training.loader.execution.partitions,
                     .device = device,
                     .threads = at::get_num_threads(),
                     .check_finite = a.training.loader.execution.check_finite,
                     .of_flags = described_by_flags(training)};
  task.make = [training, device](const ModelDescription& description, const Dataset& dataset) {
    TrainingOptions options = options_of(description, training);
    options.device = device;
    DatasetMeta meta = dataset.meta();
    NodeTypeMeta& labelled = meta.node_types[static_cast<std::size_t>(
        description.type.empty() ? 0 : meta.node_type(description.type))];
    if (description.classes > 0)
      labelled.num_classes = description.classes;  // tomorrow's graph need have no labels
    const std::shared_ptr<NodeClassifier> made = make_model(options, meta);
    const std::string title = model_title(options, meta);
    return InferenceTask::Made{
        .module = made, .inferred = [made, title, &dataset] { return inferred(*made, dataset, title); }};
  };
  return task;
}

}  // namespace

void add_options(CommandLine& line, ClassificationArguments& a) {
  TrainingOptions& t = a.training;
  line.option("--data", t.loader.dataset, "Dataset folder");
  a.servers.add(line);
  line.option("--out", t.out, "Folder for model.pt, checkpoints and summary.json; default: nothing is kept",
              {.output = true});
  line.option("--epochs", t.epochs, "Passes over the training nodes");
  a.from_line.add(line, {"fanouts"});
  line.option("--hidden", t.hidden, "Width of the hidden layers");
  line.option("--dropout", t.dropout, "Share of hidden units dropped while training");
  line.option("--lr", t.lr, "Adam's learning rate");
  line.option("--weight-decay", t.weight_decay, "Adam's L2 penalty");
  line.option("--seed", t.seed, "Seed of sampling, initial parameters and dropout");
  a.from_line.add(line,
                  {"workers", "graph mode", "gpu graph cache", "gpu cache", "partitions", "check finite"});
  line.option("--deal", a.deal,
              "Who trains on which seeds: even, each trainer a share of each round, or local, the seeds of "
              "the partition "
              "that it is beside (--data), so that fewer rows come from other machines",
              {.one_of = {"even", "local"}});
  add_cores_option(line, a.process);
  line.option("--threads", a.process.threads,
              "Threads of each trainer while training; with --model of the inference (without: one for each "
              "core)",
              {.min = 1, .max = 1024});
  line.flag("--no-baseline", a.process.no_baseline, "Do not train the model on features alone");
  line.option("--validate", a.validate,
              "Of each epoch: sampled, with the training's fanouts, or exact, over all neighbours (--data)",
              {.one_of = {"sampled", "exact"}});
  add_options(line, a.inference);
  add_checkpoint_options(line, t.checkpoint_every, t.keep);
  add_trainer_options(line, a.process);
  line.option(
      "--trace", a.trace,
      "Write a Chrome trace of all trainers and workers of this machine to this file; Perfetto opens it",
      {.output = true});
  line.option("--json", a.process.json, "Write the summary to this file too", {.output = true});
}

void take_options(ClassificationArguments& a) {
  a.servers.check(a.training.loader.dataset);
  if (a.servers.remote()) a.from_line.refuse_of_workers();
  a.from_line.take();
  check(a.inference, {.remote = a.servers.remote(),
                      .peers = a.training.loader.execution.partitions.on(),
                      .exact = true,
                      .data = a.training.loader.dataset,
                      .out = a.training.out});
  check_checkpoint_options(a.training.checkpoint_every, a.training.keep, a.training.out);
  a.owners.take(a.training.loader, a.training.out);
  a.training.loader.batch.validate();
  a.training.local_seeds = a.deal == "local";
  const std::string lacking = exact_needs(a, a.training);
  require_valid(a.validate == "sampled" || lacking.empty(), "--validate exact needs " + lacking);
  if (a.servers.remote()) a.training.streams = a.servers.streams(a.training.loader.dataset);
}

void run_inference(const ClassificationArguments& a) {
  infer_alone(a.inference, a.process,
              [&](torch::Device device) { return inference_task(a, a.training, a.inference.model, device); });
}

ModelRun features_alone(TrainingOptions training) {
  training.loader.batch.fanouts = {};
  training.loader.batch.edge_fanouts = {};
  training.name = "baseline";
  return {.prefix = "baseline_", .training = std::move(training)};
}

void run_models(const ClassificationArguments& arguments, std::vector<ModelRun> models) {
  // A wrong path or option is said before trainers are waited for.
  std::vector<std::string> titles;
  for (const ModelRun& run : models) titles.push_back(title_of(run));
  const torch::Device device = device_of(arguments.process);
  for (ModelRun& run : models) {
    compute_on(device, arguments.process, run.training);
    run.training.loader.execution.gpu.validate(run.training.loader.execution.num_workers);
  }
  const std::filesystem::path& out = arguments.training.out;
  LoaderOptions placed = arguments.training.loader;
  const cpu_set_t all_cores = place_on_cores(arguments.process.cores, placed);
  at::set_num_threads(arguments.process.threads);
  World world(world_options(arguments.process, device));
  for (ModelRun& run : models) share_peers(world, run.training.loader.execution.partitions);
  const TrainingOptions& last = models.back().training;
  const Owners owners =
      arguments.owners.connect(meta_of(last), arguments.servers, last.loader.execution.partitions);
  for (ModelRun& run : models) run.training.owners = owners;
  Summary summary(out, arguments.process, world);
  std::vector<std::string> names;
  for (const ModelRun& run : models) names.push_back(run.training.name);
  begin_run(world, arguments.process, out, names);

  const std::unique_ptr<TraceFile> trace = open_trace(arguments.trace, world);
  std::vector<TrainingResult> results;
  for (std::size_t i = 0; i < models.size(); ++i) {
    ModelRun& run = models[i];
    run.training.loader.execution.cores = placed.execution.cores;
    run.training.trace = trace.get();
    run.training.resume = resume_of(arguments.process);
    run.training.loader.while_waiting = end_of_waiting(out);
    if (arguments.validate == "exact")
      run.training.exact_validation = [&, threads = arguments.process.threads](NodeClassifier& model) {
        return exact_accuracies(world, model, validation_of(arguments, run.training, threads, titles[i]))
            .at(run.training.valid_split)
            .value();
      };
    results.push_back(
        train(world, run.training, callbacks(titles[i], run.training.epochs, world, epoch_note)));
    leave_if_stopped(results.back().stopped, out);
  }
  finish_trace(trace.get(), world);

  sched_setaffinity(0, sizeof all_cores, &all_cores);  // who does not compute waits: inference may use them
  at::set_num_threads(CPU_COUNT(&all_cores));
  const TrainingOptions& main = models.back().training;
  RunReport report{.dataset = meta_of(main).name,
                   .trainers = world.size(),
                   .options = options_json(arguments, main),
                   .models = {}};
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ModelRun& run = models[i];
    const std::string lacking = exact_needs(arguments, run.training);
    report.models.push_back(
        lacking.empty() ? evaluate(world, run, results[i],
                                   validation_of(arguments, run.training, at::get_num_threads(), titles[i]))
                        : report_of(run, results[i], lacking));
    report.models.back().exact_epochs = arguments.validate == "exact";
  }
  nlohmann::json json = to_json(report);
  if (world.rank() == 0) std::fputs(to_table(report).c_str(), stdout);
  try {
    if (arguments.inference.infer)
      json["inference"] = infer_together(world, arguments.inference,
                                         inference_task(arguments, main, out / (main.name + ".pt"), device));
  } catch (...) {
    if (world.rank() == 0) summary.write(json);  // of the training, which has ended well
    throw;
  }
  if (world.rank() == 0) summary.write(json);
}

}  // namespace hopfeed
