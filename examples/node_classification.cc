// node_classification: trains GraphSAGE on a dataset folder through sampling workers, or on what servers
// have, beside a model that sees the features alone, and reports the exact accuracy of both. Runs alone or as
// any number of trainers under torchrun.
#include <string>
#include <vector>

#include "core/base/error.h"
#include "examples/classification_program.h"
#include "examples/training_process.h"

namespace hopfeed {
namespace {

void run(ClassificationArguments& arguments, std::optional<std::int64_t> hops) {
  TrainingOptions& training = arguments.training;
  take_options(arguments);
  std::vector<std::int64_t>& fanouts = training.loader.batch.fanouts;
  if (hops && (*hops < 0 || *hops > std::ssize(fanouts))) {
    throw Error(ErrorCode::kInvalid, "--hops is " + std::to_string(*hops) + ", but --fanouts has " +
                                         std::to_string(fanouts.size()) + " numbers; give one per hop");
  }
  fanouts.resize(static_cast<std::size_t>(hops.value_or(std::ssize(fanouts))));
  if (arguments.inference.alone()) return run_inference(arguments);
  std::vector<ModelRun> models;
  if (!arguments.process.no_baseline && !fanouts.empty()) models.push_back(features_alone(training));
  models.push_back({.prefix = "", .training = training});
  run_models(arguments, std::move(models));
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "node_classification",
      "Trains GraphSAGE on a dataset through sampling workers and shared memory, and a model on the features "
      "alone\n"
      "beside it; then computes the exact accuracy of both for all nodes.\n\n"
      "Example: torchrun --standalone --no-python --nproc-per-node=2 node_classification \\\n"
      "             --data quickstart/dataset --out quickstart\n"
      "With --servers in place of --data the batches come from hopfeed-server.");
  ClassificationArguments arguments;
  std::optional<std::int64_t> hops;
  add_options(line, arguments);
  line.option("--hops", hops, "Use that many of the fanouts; 0: features alone");
  return training_main(line, argc, argv, [&] { run(arguments, hops); });
}
