// What the programs that train node classifiers share: options, one run of several models on the same
// trainers, and its report.
#pragma once
#include <string>
#include <vector>

#include "examples/training_process.h"
#include "trainer/trainer.h"
#include "worker_mode/program/loader_arguments.h"

namespace hopfeed {

/// Options that all of them have.
struct ClassificationArguments {
  TrainingOptions training = {};
  LoaderArguments from_line{training.loader};
  ProcessArguments process;
  std::string trace;
};
void add_options(CommandLine& line, ClassificationArguments& arguments);

/// One model of a run.
struct ModelRun {
  std::string prefix;  // of its figures in summary.json; empty for the model that the run is about
  TrainingOptions training;
  std::string title = {};  // in the table; empty: the model's own
};
/// The options of a model that sees the seeds' features alone, beside the one of `training`.
ModelRun features_alone(TrainingOptions training);

/// Trains the models one after the other on all trainers, infers each over all nodes, and writes table and
/// summary. The last is the model that the run is about.
void run_models(const ClassificationArguments& arguments, std::vector<ModelRun> models);

}  // namespace hopfeed
