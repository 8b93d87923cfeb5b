// The programs that train node classifiers share this: options, one run of several models on the same
// trainers, and its report.
#pragma once
#include <string>
#include <vector>

#include "examples/inference_program.h"
#include "examples/owners_arguments.h"
#include "examples/training_process.h"
#include "programs/options/loader_arguments.h"
#include "programs/options/server_arguments.h"
#include "trainer/trainer.h"

namespace hopfeed {

/// ClassificationArguments are options that all of them have.
struct ClassificationArguments {
  TrainingOptions training = {};
  LoaderArguments from_line{training.loader};
  ServerArguments servers{"--data"};
  OwnersArguments owners;  // of programs whose models learn rows
  InferenceArguments inference;
  std::string deal = "even", validate = "sampled";
  ProcessArguments process;
  std::string trace;
};
void add_options(CommandLine& line, ClassificationArguments& arguments);
/// Reads what the options say, and opens the dataset, or asks the servers that have it. Throws kInvalid
/// naming the option.
void take_options(ClassificationArguments& arguments);

/// A ModelRun is one model of a run.
struct ModelRun {
  std::string prefix;  // of its figures in summary.json; empty for the model that the run is about
  TrainingOptions training;
  std::string title = {};  // in the table; empty: the model's own
};
/// Returns the options of a model that sees the seeds' features alone, beside the one of `training`.
ModelRun features_alone(TrainingOptions training);

/// Infers with the model of --model, and trains nothing. Throws kInvalid naming the option.
void run_inference(const ClassificationArguments& arguments);

/// Trains the models one after the other on all trainers, infers each over all nodes where the dataset folder
/// is at hand, and writes table and summary. The last is the model that the run is about: it is
/// what --infer takes.
void run_models(const ClassificationArguments& arguments, std::vector<ModelRun> models);

}  // namespace hopfeed
