// Reports what a classification program says at the end: a table on stdout and summary.json, from the same
// figures.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/training_progress.h"

namespace hopfeed {

/// A ModelReport is one trained model: its epochs, and its exact accuracy by layer-wise inference where the
/// dataset was at hand.
struct ModelReport {
  std::string title;  // "GraphSAGE", "features alone"
  std::string
      prefix;  // of its figures in summary.json: "baseline_"; empty for the model that the run is about
  std::vector<EpochRow> rows;
  std::int64_t best_epoch = 0;
  std::optional<double> train_accuracy, valid_accuracy, test_accuracy;  // of the splits that there are
  double inference_seconds = 0;
  std::int64_t returns = 0, batches_again = 0;  // to checkpoints, since owners had lost learned rows
  bool exact_epochs = false;                    // --validate exact: validation accuracies of epochs are too
  std::string exact_needs;                      // what exact accuracies lack; empty: they are there
};

struct RunReport {
  std::string dataset;
  std::int64_t trainers = 1;
  nlohmann::json options;           // of the last model, as given on the command line
  std::vector<ModelReport> models;  // the last is the one that the run is about
};

/// Returns every figure of the table and more, of each model under its prefix. `epoch_seconds`,
/// `batches_per_s` and `trainer_wait_fraction` are means over the model's epochs, weighed by their time.
nlohmann::json to_json(const RunReport& report);

/// Returns the epochs of the last model, and a row with the exact accuracies of each.
std::string to_table(const RunReport& report);

}  // namespace hopfeed
