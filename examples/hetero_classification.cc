// hetero_classification: trains HeteroSage on a dataset with several node and edge types, beside GraphSAGE on
// the same nodes without types, itself without some of the edge types (--without), and a model that sees the
// features alone, all on the same splits for equally many epochs, and reports the exact accuracy of each.
// Runs alone or as any number of trainers under torchrun.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "examples/classification_program.h"
#include "examples/training_process.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

struct Arguments {
  ClassificationArguments shared{.training = {.loader = {.batch = {.fanouts = {8, 4}}}}};
  std::string without;
  std::string homogeneous, homogeneous_fanouts = "15,10,5";
};

void add_options(CommandLine& line, Arguments& a) {
  add_options(line, a.shared);
  line.option("--node-type", a.shared.training.loader.node_type,
              "Type that is classified; default: the first");
  a.shared.from_line.add(line, {"edge fanouts"});
  a.shared.owners.add(line);
  line.option(
      "--without", a.without,
      "Train HeteroSage once more without these edge types (tagged,rev_tagged), to see what they say");
  line.option("--homogeneous", a.homogeneous,
              "Dataset folder with the classified nodes alone, ids and splits the same: GraphSAGE trains on "
              "it beside");
  line.option("--homogeneous-fanouts", a.homogeneous_fanouts, "Neighbours drawn per hop for GraphSAGE");
}

/// Accuracies are compared, so they must be of the same nodes.
void check_same_splits(const Dataset& typed, int node_type, const Dataset& homogeneous) {
  for (const auto& [name, count] : typed.meta().node_types[node_type].splits) {
    const auto& others = homogeneous.meta().node_types.front().splits;
    if (others.contains(name) && std::ranges::equal(typed.split(node_type, name), homogeneous.split(0, name)))
      continue;
    throw Error(ErrorCode::kInvalid,
                "split '" + name + "' of " + homogeneous.folder().string() + " is not that of " +
                    typed.folder().string() +
                    ", so accuracies cannot be compared; import both from the same source");
  }
}

ModelRun homogeneous_run(const Arguments& a, TrainingOptions training) {
  const Dataset typed(training.loader.dataset);
  const std::string& type = training.loader.node_type;
  check_same_splits(typed, type.empty() ? 0 : typed.meta().node_type(type), Dataset(a.homogeneous));
  training.loader.dataset = a.homogeneous;
  training.loader.node_type.clear();
  training.loader.batch.fanouts = parse_fanouts(a.homogeneous_fanouts);
  training.loader.batch.edge_fanouts.clear();
  training.loader.batch.validate();
  training.name = "homogeneous";
  return {.prefix = "homogeneous_", .training = std::move(training)};
}

/// The hetero model, blind for some edge types.
ModelRun run_without(const Arguments& a, TrainingOptions training) {
  BatchOptions& batch = training.loader.batch;
  const DatasetMeta typed =
      training.streams ? training.streams->meta() : LocalStreams(training.loader.dataset).meta();
  std::string title = "without";
  for (const std::string& name : parse_names(a.without)) {
    const int type = typed.edge_type(name);
    std::erase_if(batch.edge_fanouts,
                  [&](const auto& entry) { return typed.edge_type(entry.first) == type; });
    title += (title == "without" ? " " : ",") + name;
    batch.edge_fanouts[name].assign(batch.fanouts.size(), 0);
  }
  training.name = "without";
  return {.prefix = "without_", .training = std::move(training), .title = std::move(title)};
}

void run(Arguments& a) {
  TrainingOptions& training = a.shared.training;
  take_options(a.shared);
  require_valid(a.homogeneous.empty() || !a.shared.servers.remote(),
                "--homogeneous is compared with the dataset folder; give --data instead of --servers");
  if (training.loader.batch.fanouts.empty())
    throw Error(ErrorCode::kInvalid, "--fanouts is empty; give a number per hop, one hop at least");
  if (a.shared.inference.alone()) return run_inference(a.shared);
  std::vector<ModelRun> models;
  if (!a.shared.process.no_baseline) models.push_back(features_alone(training));
  if (!a.homogeneous.empty()) models.push_back(homogeneous_run(a, training));
  if (!a.without.empty()) models.push_back(run_without(a, training));
  models.push_back({.prefix = "", .training = training});
  run_models(a.shared, std::move(models));
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "hetero_classification",
      "Trains HeteroSage on a dataset with several node and edge types through sampling workers and shared\n"
      "memory, and beside it, on the same splits, GraphSAGE without types (--homogeneous) and a model on "
      "the\n"
      "features alone; then computes the exact accuracy of each for all nodes.\n\n"
      "Example: torchrun --standalone --no-python --nproc-per-node=2 hetero_classification --data "
      "hetero/typed \\\n"
      "             --homogeneous hetero/homogeneous --out hetero --fanouts 4,2 --edge-fanouts "
      "'depends=6,4;tagged=0,8'");
  Arguments arguments;
  add_options(line, arguments);
  return training_main(line, argc, argv, [&] { run(arguments); });
}
