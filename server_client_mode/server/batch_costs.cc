// See batch_costs.h.
#include "server_client_mode/server/batch_costs.h"

#include <bit>

namespace hopfeed {
namespace {

constexpr double kUnknownSeconds = 0.001;
constexpr std::int64_t kFewSeeds = 64;  // of a batch that is taken for a short one before anything is known
constexpr double kNewest = 0.25;        // weight of the last batch among those before
// A long kind is a short one again where its batches take this part of what made it long: else one whose
// batches take about as much would change at each.
constexpr double kShortAgain = 0.5;

void approach(double& known, double newest) { known += kNewest * (newest - known); }

}  // namespace

BatchCosts::Kind BatchCosts::kind_of(const BatchRequest& batch) {
  return {.job = batch.job,
          .magnitude = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(batch.count)))};
}

BatchCosts::Cost BatchCosts::of(const BatchRequest& batch) const {
  const auto known = costs_.find(kind_of(batch));
  if (known != costs_.end()) return known->second;
  return {.seconds = kUnknownSeconds, .bytes = 0, .is_long = batch.count > kFewSeeds};
}

void BatchCosts::learn(const Kind& kind, double seconds, std::size_t bytes) {
  const auto [known, first] =
      costs_.try_emplace(kind, Cost{.seconds = seconds, .bytes = static_cast<double>(bytes)});
  Cost& cost = known->second;
  if (!first) {
    approach(cost.seconds, seconds);
    approach(cost.bytes, static_cast<double>(bytes));
  }
  cost.is_long = cost.seconds >= (cost.is_long ? kShortAgain * takes_long_ : takes_long_);
}

void BatchCosts::forget(std::uint32_t job) {
  std::erase_if(costs_, [&](const auto& known) { return known.first.job == job; });
}

}  // namespace hopfeed
