// link_prediction: trains a link predictor (two towers of GraphSAGE layers and an edge classifier,
// link_model.h) on the links of one edge type, beside the same classifier without the graph, and tells
// ROC-AUC on held-out links after every epoch. Runs alone or as any number of trainers under torchrun.
#include <sched.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/dataset/given_array.h"
#include "examples/epoch_report.h"
#include "examples/inference_program.h"
#include "examples/link_report.h"
#include "examples/owners_arguments.h"
#include "examples/training_process.h"
#include "programs/options/loader_arguments.h"
#include "programs/options/server_arguments.h"
#include "stream/torchrun_environment.h"
#include "trainer/link_trainer.h"
#include "trainer/peer_addresses.h"

namespace hopfeed {
namespace {

LinkTrainingOptions defaults() {
  LinkTrainingOptions options;
  options.loader.batch.fanouts = {8, 4};
  options.loader.batch.link.negatives.mode = NegativeMode::kBinary;
  options.loader.batch.link.exclude = Exclude::kReverse;
  options.loader.deal.batch_size = 2048;
  return options;
}

struct Arguments {
  LinkTrainingOptions training = defaults();
  LoaderArguments from_line{training.loader};
  ServerArguments servers{"--data"};
  OwnersArguments owners;
  InferenceArguments inference;
  std::filesystem::path test_links;
  ProcessArguments process;
};

void add_options(CommandLine& line, Arguments& a) {
  LinkTrainingOptions& t = a.training;
  LinkOptions& link = t.loader.batch.link;
  line.option("--data", t.loader.dataset, "Dataset folder");
  a.servers.add(line);
  line.stands_for("--edge-type", "link");
  line.option("--edge-type", link.edge_type,
              "Edge type whose links are predicted (listens; user__listens__artist)");
  line.option("--out", t.out, "Folder for model.pt, checkpoints and summary.json; default: nothing is kept",
              {.output = true});
  line.option("--train-split", t.train_split, "Split of the edge type that is learned from");
  line.option("--valid-split", t.valid_split, "Split whose ROC-AUC picks the best epoch");
  line.option("--test-split", t.test_split, "Split whose ROC-AUC is told beside");
  line.option("--test-links", a.test_links,
              "Test links in a file instead: .npy, int64 [P, 2], original ids of source and destination");
  line.option("--epochs", t.epochs, "Passes over the training links");
  line.option("--max-batches", t.max_batches, "Batches of an epoch, over all trainers; 0: all");
  a.from_line.add(line, {"fanouts", "edge fanouts", "negatives"});
  line.option("--hidden", t.hidden, "Width of the layers and of learned rows");
  line.option("--dropout", t.dropout, "Share of hidden units dropped while training");
  line.option("--lr", t.lr, "Adam's learning rate");
  line.option("--embedding-lr", t.embedding_lr, "That of learned rows");
  a.owners.add(line);
  line.option("--seed", t.seed, "Seed of sampling, negatives, first values and dropout");
  a.from_line.add(line,
                  {"workers", "graph mode", "gpu graph cache", "gpu cache", "partitions", "check finite"});
  add_cores_option(line, a.process);
  line.option("--threads", a.process.threads,
              "Threads of each trainer; with --model of the inference (without: one for each core)",
              {.min = 1, .max = 1024});
  line.flag("--no-baseline", a.process.no_baseline, "Do not train the classifier without the graph");
  add_options(line, a.inference);
  add_checkpoint_options(line, t.checkpoint_every, t.keep);
  add_trainer_options(line, a.process);
  line.option("--json", a.process.json, "Write the summary to this file too", {.output = true});
}

std::vector<std::int64_t> read_links(const std::filesystem::path& path) {
  const GivenArray file(path);
  const std::vector<std::int64_t>& shape = file.shape();
  require_valid(
      shape.size() == 2 && shape[1] == 2,
      "--test-links: " + path.string() + " is not of shape [P, 2]: source and destination of each link");
  std::vector<std::int64_t> pairs(static_cast<std::size_t>(file.count()));
  file.read_integers(0, pairs);
  return pairs;
}

struct Run {
  std::string title, prefix;
  LinkTrainingOptions training;
};

/// The last is the model that the run is about.
std::vector<Run> runs_of(const Arguments& a) {
  std::vector<Run> runs;
  if (!a.process.no_baseline && !a.training.loader.batch.fanouts.empty()) {
    runs.push_back({"without the graph", "baseline_", a.training});
    LinkTrainingOptions& baseline = runs.back().training;
    baseline.loader.batch.fanouts = {};
    baseline.loader.batch.edge_fanouts = {};
    baseline.name = "baseline";
  }
  runs.push_back({"two towers", "", a.training});
  return runs;
}

nlohmann::json options_json(const Arguments& a) {
  const LinkTrainingOptions& t = a.training;
  return {{"fanouts", t.loader.batch.fanouts},
          {"edge_fanouts", t.loader.batch.edge_fanouts},
          {"batch_size", t.loader.deal.batch_size},
          {"max_batches", t.max_batches},
          {"amount", t.loader.batch.link.negatives.amount},
          {"strict", t.loader.batch.link.negatives.strict},
          {"exclude", to_string(t.loader.batch.link.exclude)},
          {"hidden", t.hidden},
          {"dropout", t.dropout},
          {"lr", t.lr},
          {"embedding_lr", t.embedding_lr},
          {"seed", t.seed},
          {"num_workers", t.loader.execution.num_workers},
          {"channel_size", t.loader.execution.channel_size},
          {"threads", a.process.threads},
          {"backend", a.process.backend},
          {"device", t.device.str()},
          {"precision", to_string(t.precision)},
          {"deterministic", t.deterministic}};
}

std::string epoch_note(const EpochRow& row, const LinkRunReport& report) {
  std::string note = "loss " + four_decimals(row.loss);
  if (report.has_valid) note += ", AUC valid " + four_decimals(row.valid_auc);
  if (report.has_test) note += (report.has_valid ? ", test " : ", AUC test ") + four_decimals(row.test_auc);
  return note + "; " + waits_text(row);
}

LinkModelReport trained(World& world, const Run& run, const LinkRunReport& report) {
  const auto note = [&](const EpochRow& row) { return epoch_note(row, report); };
  const LinkTrainingResult result =
      train_links(world, run.training, callbacks(run.title, run.training.epochs, world, note));
  leave_if_stopped(result.stopped, run.training.out);
  return {.title = run.title,
          .prefix = run.prefix,
          .rows = result.rows,
          .best_epoch = result.best_epoch,
          .learned_rows = result.learned_rows,
          .returns = result.returns.times,
          .batches_again = result.returns.batches};
}

LinkModelOptions options_of(const ModelDescription& model, const DatasetMeta& dataset) {
  BatchOptions batch;
  batch.fanouts = model.fanouts;
  batch.edge_fanouts = model.edge_fanouts;
  return {.dataset = dataset,
          .batch = batch,
          .edge_type = model.type,
          .hidden = model.hidden,
          .dropout = model.dropout,
          .seed = model.seed};
}

/// What the options say of a model whose file says nothing.
ModelDescription described_by_flags(const LinkTrainingOptions& training) {
  return {.kind = "links",
          .type = training.loader.batch.link.edge_type,
          .fanouts = training.loader.batch.fanouts,
          .edge_fanouts = training.loader.batch.edge_fanouts,
          .hidden = training.hidden,
          .dropout = training.dropout,
          .seed = training.seed};
}

InferenceTask inference_task(const Arguments& a, const std::filesystem::path& model, torch::Device device) {
  const LinkTrainingOptions& training = a.training;
  InferenceTask task{.dataset = training.loader.dataset,
                     .model = model,
                     .kind = "links",
                     .peers = training.loader.execution.partitions,
                     .device = device,
                     .threads = at::get_num_threads(),
                     .check_finite = training.loader.execution.check_finite,
                     .of_flags = described_by_flags(training)};
  task.make = [device](const ModelDescription& description, const Dataset& dataset) {
    LinkModel made(options_of(description, dataset.meta()));
    made->to(device);
    return InferenceTask::Made{.module = made.ptr(), .inferred = [made] { return inferred(*made); }};
  };
  return task;
}

void run_inference(const Arguments& a) {
  infer_alone(a.inference, a.process,
              [&](torch::Device device) { return inference_task(a, a.inference.model, device); });
}

void run(Arguments& a) {
  LinkTrainingOptions& training = a.training;
  BatchOptions& batch = training.loader.batch;
  a.servers.check(training.loader.dataset);
  if (a.servers.remote()) a.from_line.refuse_of_workers();
  require_valid(a.inference.alone() || !batch.link.edge_type.empty(), "--edge-type is required");
  a.from_line.take();
  check(a.inference, {.remote = a.servers.remote(),
                      .peers = training.loader.execution.partitions.on(),
                      .data = training.loader.dataset,
                      .out = training.out});
  if (a.inference.alone()) return run_inference(a);
  check_checkpoint_options(training.checkpoint_every, training.keep, training.out);
  a.owners.take(training.loader, training.out);
  batch.validate();
  training.resume = resume_of(a.process);
  training.loader.while_waiting = end_of_waiting(training.out);
  // A wrong path or type is said before trainers are waited for.
  training.streams = a.servers.streams(training.loader.dataset);
  const DatasetMeta& meta = training.streams->meta();
  const int links = meta.edge_type(batch.link.edge_type);
  for (const auto& [name, fanouts] : batch.edge_fanouts) meta.edge_type(name);
  if (!a.test_links.empty()) training.test_pairs = read_links(a.test_links);

  compute_on(device_of(a.process), a.process, training);
  training.loader.execution.gpu.validate(training.loader.execution.num_workers);
  const cpu_set_t all_cores = place_on_cores(a.process.cores, training.loader);
  at::set_num_threads(a.process.threads);
  World world(world_options(a.process, training.device));
  share_peers(world, training.loader.execution.partitions);
  training.owners = a.owners.connect(meta, a.servers, training.loader.execution.partitions);
  Summary summary(training.out, a.process, world);
  const std::vector<Run> runs = runs_of(a);
  std::vector<std::string> names;
  for (const Run& run : runs) names.push_back(run.training.name);
  begin_run(world, a.process, training.out, names);

  LinkRunReport report{.dataset = meta.name,
                       .edge_type = meta.edge_types[static_cast<std::size_t>(links)].folder(),
                       .trainers = world.size(),
                       .has_valid = has_links(training, meta, training.valid_split),
                       .has_test = has_links(training, meta, training.test_split),
                       .options = options_json(a),
                       .models = {}};
  for (const Run& run : runs) report.models.push_back(trained(world, run, report));
  nlohmann::json json = to_json(report);
  if (world.rank() == 0) std::fputs(to_table(report).c_str(), stdout);
  sched_setaffinity(0, sizeof all_cores, &all_cores);  // who does not compute waits: it may use them
  at::set_num_threads(CPU_COUNT(&all_cores));
  try {
    if (a.inference.infer)
      json["inference"] = infer_together(
          world, a.inference, inference_task(a, training.out / (training.name + ".pt"), training.device));
  } catch (...) {
    if (world.rank() == 0) summary.write(json);  // of the training, which has ended well
    throw;
  }
  if (world.rank() == 0) summary.write(json);
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "link_prediction",
      "Trains a link predictor through sampling workers and shared memory: layers of GraphSAGE for both ends "
      "of a link, on "
      "features or\n"
      "on learned rows, and a classifier of pairs; and the classifier without the graph beside it. Tells "
      "ROC-AUC on held-out\n"
      "links, which hopfeed-partition split-links takes out of the graph.\n\n"
      "Example: torchrun --standalone --no-python --nproc-per-node=2 link_prediction --data links/lastfm \\\n"
      "             --edge-type listens --out links --epochs 20");
  Arguments arguments;
  add_options(line, arguments);
  return training_main(line, argc, argv, [&] { run(arguments); });
}
