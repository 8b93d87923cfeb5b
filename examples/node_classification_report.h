// What node_classification says at the end: a table on stdout and summary.json, from the same figures.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/training_progress.h"

namespace hopfeed {

/// One trained model: its epochs, and its exact accuracy by layer-wise inference.
struct ModelReport {
  std::string title;  // "GraphSAGE", "features alone"
  std::vector<EpochRow> rows;
  std::int64_t best_epoch = 0;
  std::optional<double> train_accuracy, valid_accuracy, test_accuracy;  // of the splits that there are
  double inference_seconds = 0;
};

struct RunReport {
  std::string dataset;
  std::int64_t trainers = 1;
  nlohmann::json options;  // as given on the command line
  ModelReport model;
  std::optional<ModelReport> baseline;
};

/// Every figure of the table and more. `epoch_seconds`, `batches_per_s` and `trainer_wait_fraction` are means
/// over the model's epochs, weighed by their time.
nlohmann::json to_json(const RunReport& report);

/// The epochs, the baseline as a row, and the exact accuracies.
std::string to_table(const RunReport& report);

}  // namespace hopfeed
