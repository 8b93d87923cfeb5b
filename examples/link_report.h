// Reports what link_prediction says at the end: a table on stdout and summary.json, from the same figures.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/training_progress.h"

namespace hopfeed {

/// A LinkModelReport is one trained model.
struct LinkModelReport {
  std::string title;  // "two towers", "without the graph"
  std::string
      prefix;  // of its figures in summary.json: "baseline_"; empty for the model that the run is about
  std::vector<EpochRow> rows;
  std::int64_t best_epoch = 0, learned_rows = 0;
  std::int64_t returns = 0, batches_again = 0;  // to checkpoints, since owners had lost learned rows
};

struct LinkRunReport {
  std::string dataset, edge_type;
  std::int64_t trainers = 1;
  bool has_valid = false, has_test = false;  // whether the edge type has such splits
  nlohmann::json options;
  std::vector<LinkModelReport> models;  // the last is the one that the run is about
};

/// Returns every figure of the table and more, of each model under its prefix; ROC-AUCs are those of the best
/// epoch.
nlohmann::json to_json(const LinkRunReport& report);
/// Returns the epochs of the last model, and a row with the best epoch of each.
std::string to_table(const LinkRunReport& report);

}  // namespace hopfeed
