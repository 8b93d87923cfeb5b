// See row_formulas.h.
#include "state/table/row_formulas.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "core/base/each_processor.h"
#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::array<std::pair<RowOptimizer, std::string_view>, 4> kNames{
    {{RowOptimizer::kSparseAdam, "sparse_adam"},
     {RowOptimizer::kAdagrad, "adagrad"},
     {RowOptimizer::kRowWiseAdagrad, "row_wise_adagrad"},
     {RowOptimizer::kSgd, "sgd"}}};
constexpr std::int64_t kLanes = 16;  // of sums over a row, on every processor

/// SplitMix64's mixing of 64 bits (Steele, Lea, Flood 2014).
[[gnu::always_inline]] inline std::uint64_t mix(std::uint64_t h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9U;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBU;
  return h ^ (h >> 31);
}

}  // namespace

std::string_view name_of(RowOptimizer optimizer) {
  return kNames[static_cast<std::size_t>(optimizer)].second;
}

RowOptimizer row_optimizer(std::string_view name) {
  for (const auto& [optimizer, known] : kNames)
    if (name == known) return optimizer;
  throw Error(ErrorCode::kInvalid,
              fmt::format("there is no optimizer '{}' of rows; use sparse_adam, adagrad, row_wise_adagrad or "
                          "sgd",
                          name));
}

void RowOptimizerOptions::validate() const {
  const auto require = [](bool holds, const char* what, double given, const char* use) {
    require_valid(holds, fmt::format("the {} of learned rows is {}; use {}", what, given, use));
  };
  require(lr > 0 && std::isfinite(lr), "lr", lr, "one above 0");
  require(beta1 >= 0 && beta1 < 1, "beta1", beta1, "0 up to below 1");
  require(beta2 >= 0 && beta2 < 1, "beta2", beta2, "0 up to below 1");
  require(epsilon > 0 && std::isfinite(epsilon), "epsilon", epsilon, "one above 0");
}

std::int64_t state_width(RowOptimizer optimizer, std::int64_t width) {
  switch (optimizer) {
    case RowOptimizer::kSparseAdam:
      return 2 * width;
    case RowOptimizer::kAdagrad:
      return width;
    case RowOptimizer::kRowWiseAdagrad:
      return 1;
    case RowOptimizer::kSgd:
      break;
  }
  return 0;
}

void StepCount::advance(const RowOptimizerOptions& options) {
  ++steps;
  power1 *= options.beta1;
  power2 *= options.beta2;
}

RowStep row_step(const RowOptimizerOptions& options, const StepCount& count) {
  const double corrected = options.optimizer == RowOptimizer::kSparseAdam
                               ? options.lr * std::sqrt(1 - count.power2) / (1 - count.power1)
                               : options.lr;
  return {.optimizer = options.optimizer,
          .size = static_cast<float>(corrected),
          .mean_share = static_cast<float>(1 - options.beta1),
          .square_share = static_cast<float>(1 - options.beta2),
          .epsilon = static_cast<float>(options.epsilon)};
}

HOPFEED_EACH_PROCESSOR void first_values(std::uint64_t key, std::int64_t row, float bound, std::int64_t width,
                                         float* __restrict__ out) {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15U;
  const std::uint64_t begin = mix(mix(key + kStep) ^ (static_cast<std::uint64_t>(row) * kStep));
  for (std::int64_t f = 0; f < width; ++f) {
    const std::uint64_t random = mix(begin + (static_cast<std::uint64_t>(f) + 1) * kStep);
    // An odd number of 25 bits below 2^25, so neither bound is reached and 0 is the middle; exact as a float.
    const auto odd = static_cast<std::int32_t>((random >> 40) << 1 | 1);
    out[f] = static_cast<float>(odd - (1 << 24)) * (bound / static_cast<float>(1 << 24));
  }
}

namespace {

HOPFEED_EACH_PROCESSOR void adam(const RowStep& step, const float* __restrict__ gradient, std::int64_t width,
                                 float* __restrict__ row) {
  float* __restrict__ mean = row + width;
  float* __restrict__ square = row + 2 * width;
  for (std::int64_t f = 0; f < width; ++f) {
    const float g = gradient[f];
    mean[f] += (g - mean[f]) * step.mean_share;
    square[f] += (g * g - square[f]) * step.square_share;
    row[f] -= step.size * (mean[f] / (std::sqrt(square[f]) + step.epsilon));
  }
}

HOPFEED_EACH_PROCESSOR void adagrad(const RowStep& step, const float* __restrict__ gradient,
                                    std::int64_t width, float* __restrict__ row) {
  float* __restrict__ sum = row + width;
  for (std::int64_t f = 0; f < width; ++f) {
    const float g = gradient[f];
    sum[f] += g * g;
    row[f] -= step.size * (g / (std::sqrt(sum[f]) + step.epsilon));
  }
}

/// Sums each lane in the row's order, then the lanes by halves.
HOPFEED_EACH_PROCESSOR float sum_of_squares(const float* __restrict__ values, std::int64_t count) {
  float lanes[kLanes] = {};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t f = 0; f < whole; f += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[f + lane] * values[f + lane];
  for (std::int64_t f = whole; f < count; ++f) lanes[f - whole] += values[f] * values[f];
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

HOPFEED_EACH_PROCESSOR void move(float size, const float* __restrict__ gradient, std::int64_t width,
                                 float* __restrict__ row) {
  for (std::int64_t f = 0; f < width; ++f) row[f] -= size * gradient[f];
}

void row_wise_adagrad(const RowStep& step, const float* gradient, std::int64_t width, float* row) {
  row[width] += sum_of_squares(gradient, width) / static_cast<float>(width);
  move(step.size / (std::sqrt(row[width]) + step.epsilon), gradient, width, row);
}

}  // namespace

void step_row(const RowStep& step, const float* gradient, std::int64_t width, float* row) {
  switch (step.optimizer) {
    case RowOptimizer::kSparseAdam:
      return adam(step, gradient, width, row);
    case RowOptimizer::kAdagrad:
      return adagrad(step, gradient, width, row);
    case RowOptimizer::kRowWiseAdagrad:
      return row_wise_adagrad(step, gradient, width, row);
    case RowOptimizer::kSgd:
      return move(step.size, gradient, width, row);
  }
}

HOPFEED_EACH_PROCESSOR void add_row(const float* __restrict__ more, std::int64_t width,
                                    float* __restrict__ sum) {
  for (std::int64_t f = 0; f < width; ++f) sum[f] += more[f];
}

HOPFEED_EACH_PROCESSOR bool all_finite(const float* values, std::int64_t count) {
  // A number less itself is 0 where it is finite, and NaN where not; so is the sum of all.
  float lanes[kLanes] = {};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t f = 0; f < whole; f += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[f + lane] - values[f + lane];
  for (std::int64_t f = whole; f < count; ++f) lanes[f - whole] += values[f] - values[f];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum == 0;
}

}  // namespace hopfeed
