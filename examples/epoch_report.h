// Reports what all training programs say of epochs: the figures of each, and their means.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/training_progress.h"

namespace hopfeed {

/// EpochMeans are means over the epochs of a model, weighed by their time.
struct EpochMeans {
  double epoch_seconds = 0, batches_per_s = 0, wait_fraction = 0;
};
EpochMeans means_of(const std::vector<EpochRow>& rows);

/// Returns where an epoch's time went, and its hit rate where rows are held: for the line under the bar.
std::string waits_text(const EpochRow& row);
/// Returns loss, times and batches; scores are each report's own.
nlohmann::json to_json(const EpochRow& row);
/// Puts how many epochs there were, which was the best and their means into a summary, each name behind
/// `prefix`.
void add_epochs(nlohmann::json& summary, const std::string& prefix, const std::vector<EpochRow>& rows,
                std::int64_t best_epoch);

}  // namespace hopfeed
