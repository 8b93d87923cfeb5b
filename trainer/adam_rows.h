// Computes one row of a learned table: its first values and a step of Adam on it. It is free of Torch, and
// compiled for AVX-512, AVX2 and the baseline, chosen at start. Every operation is rounded by itself (no
// fused ones, no approximations), so each gives the same bits.
#pragma once
#include <cstdint>

namespace hopfeed {

/// Writes values uniform in (-bound, bound): a function of (key, row, column).
void first_values(std::uint64_t key, std::int64_t row, float bound, std::int64_t width, float* out);

/// An AdamStep has the numbers of one step that all rows share.
struct AdamStep {
  float size = 0;                          // learning rate with both bias corrections
  float mean_share = 0, square_share = 0;  // 1 - beta1, 1 - beta2
  float epsilon = 0;
};
/// Steps one row: `row` is [3 * width]: values, running means of gradients, running means of their squares.
void adam_step(const AdamStep& step, const float* gradient, std::int64_t width, float* row);

}  // namespace hopfeed
