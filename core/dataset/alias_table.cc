// See alias_table.h.
#include "core/dataset/alias_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

// In rows so long, what each addition rounds off comes to a share of a column, which the largest weight would
// gain or lose. Shorter rows keep the plain sum, of which their tables were always made.
constexpr std::size_t kLongRow = std::size_t{1} << 24;

/// With the digits that each addition loses (Neumaier 1974).
double compensated_sum(std::span<const double> weights) {
  double sum = 0, lost = 0;
  for (const double weight : weights) {
    const double next = sum + weight;
    lost += sum >= weight ? (sum - next) + weight : (weight - next) + sum;
    sum = next;
  }
  return sum + lost;
}

}  // namespace

std::size_t first_bad_weight(std::span<const double> weights) {
  const auto bad = [](double weight) { return !(weight >= 0) || !std::isfinite(weight); };
  return static_cast<std::size_t>(std::ranges::find_if(weights, bad) - weights.begin());
}

std::string why_bad(double weight) {
  return fmt::format("is {}; weights are zero or above, and finite", weight);
}

bool AliasBuilder::to_integers(std::span<const double> weights) {
  if (const std::size_t bad = first_bad_weight(weights); bad < weights.size())
    throw Error(ErrorCode::kInvalid, fmt::format("weight {} {}", bad, why_bad(weights[bad])));
  double sum = 0;
  for (const double weight : weights) sum += weight;
  if (sum == 0) return false;
  if (!std::isfinite(sum))
    throw Error(ErrorCode::kInvalid, "the weights sum up to infinity; scale them down");
  if (weights.size() >= kLongRow) sum = compensated_sum(weights);
  const double whole = static_cast<double>(weights.size()) * static_cast<double>(kColumn);
  const std::uint64_t total = weights.size() * kColumn;
  integers_.resize(weights.size());
  std::uint64_t taken = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Quotients are at most 1, so the product is at most n * 2^32 < 2^63.
    const auto part = static_cast<std::uint64_t>(weights[i] / sum * whole);
    integers_[i] = weights[i] > 0 ? std::max<std::uint64_t>(part, 1) : 0;
    taken += integers_[i];
  }
  // The largest is at least a column; what the others are rounded up by is far below that, or they would not
  // be so many.
  std::uint64_t& largest = *std::max_element(integers_.begin(), integers_.end());
  largest = largest + total - taken;  // modulo 2^64, so it may also shrink
  return true;
}

bool AliasBuilder::build(std::span<const double> weights, std::span<AliasEntry> entries) {
  if (!to_integers(weights)) {
    for (std::uint32_t i = 0; i < weights.size(); ++i) entries[i] = {0, i};
    return false;
  }
  small_.clear();
  large_.clear();
  const auto full = [&](std::uint32_t i) {
    entries[i] = {UINT32_MAX, i};
  };  // whichever way the draw goes, it is i
  const auto sort_in = [&](std::uint32_t i) {
    if (integers_[i] < kColumn)
      small_.push_back(i);
    else if (integers_[i] > kColumn)
      large_.push_back(i);
    else
      full(i);
  };
  for (std::uint32_t i = 0; i < integers_.size(); ++i) sort_in(i);
  // While something is below a column, something is above it, since columns and weights sum up to the same.
  while (!small_.empty()) {
    const std::uint32_t poor = small_.back(), rich = large_.back();
    small_.pop_back();
    large_.pop_back();
    entries[poor] = {static_cast<std::uint32_t>(integers_[poor]), rich};
    integers_[rich] -=
        kColumn - integers_[poor];  // stays above zero, so a threshold of zero means a weight of zero
    sort_in(rich);
  }
  return true;
}

std::vector<AliasEntry> alias_table(std::span<const double> weights) {
  require_valid(
      weights.size() <= static_cast<std::size_t>(kMaxWeightedDegree),
      fmt::format("{} are too many to draw by; give at most {}", weights.size(), kMaxWeightedDegree));
  std::vector<AliasEntry> entries(weights.size());
  require_valid(AliasBuilder().build(weights, entries) || weights.empty(),
                "all weights are zero, so nothing can be drawn from it");
  return entries;
}

void alias_weights(const AliasTableView& table, std::uint64_t* out) {
  std::fill_n(out, table.count, 0);
  for (std::size_t i = 0; i < table.count; ++i) {
    const AliasEntry& entry = table[i];
    out[i] += own_of_column(entry, i);
    out[entry.alias] += alias_of_column(entry, i);
  }
}

}  // namespace hopfeed
