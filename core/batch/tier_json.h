// Writes TierCounts into reports: an object with a number for each name.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>

#include "core/batch/tier_counts.h"

namespace hopfeed {

inline nlohmann::json tiers_json(const TierCounts& counts) {
  nlohmann::json json = nlohmann::json::object();
  const TierCounts::Numbers numbers = counts.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) json[TierCounts::kNames[i]] = numbers[i];
  return json;
}

}  // namespace hopfeed
