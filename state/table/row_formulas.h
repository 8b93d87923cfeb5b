// Computes one row of a learned table: its first values, and an optimizer's step on it. It is compiled for
// AVX-512, AVX2 and the baseline, chosen at start. Every operation is rounded by itself (no fused ones, no
// approximations, sums over a row in one order), so each gives the same bits.
//
// A row lies in memory as [values | state], `width` values and state_width() numbers of its optimizer:
//   sparse_adam        2 width   running means of gradients, then of their squares (torch.optim.SparseAdam)
//   adagrad            width     sums of squares (torch.optim.Adagrad, as it treats sparse gradients)
//   row_wise_adagrad   1         sum of the mean squares (FBGEMM's exact_row_wise_adagrad)
//   sgd                0         (torch.optim.SGD without momentum)
// A step moves the rows that were looked up, and no other: there is no weight decay. Counts of steps and what
// follows from them belong to the table.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hopfeed {

enum class RowOptimizer { kSparseAdam, kAdagrad, kRowWiseAdagrad, kSgd };

/// Returns "sparse_adam", "adagrad", "row_wise_adagrad" or "sgd".
std::string_view name_of(RowOptimizer optimizer);
/// Throws kInvalid naming those that there are.
RowOptimizer row_optimizer(std::string_view name);

struct RowOptimizerOptions {
  RowOptimizer optimizer = RowOptimizer::kSparseAdam;
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;  // of sparse_adam
  double epsilon = 1e-8;              // of all but sgd

  bool operator==(const RowOptimizerOptions&) const = default;
  /// Throws kInvalid naming the option.
  void validate() const;
};

/// Returns how many numbers of float32 the optimizer keeps beside a row of `width`.
std::int64_t state_width(RowOptimizer optimizer, std::int64_t width);

/// StepCount is how many steps a table has taken.
struct StepCount {
  std::int64_t steps = 0;
  /// beta1 and beta2 to the power of `steps`, by multiplications: pow differs between processors.
  double power1 = 1, power2 = 1;

  bool operator==(const StepCount&) const = default;
  void advance(const RowOptimizerOptions& options);
};

/// RowStep has the numbers of one step that all rows share.
struct RowStep {
  RowOptimizer optimizer = RowOptimizer::kSparseAdam;
  float size = 0;                          // learning rate, of sparse_adam with both bias corrections
  float mean_share = 0, square_share = 0;  // 1 - beta1, 1 - beta2
  float epsilon = 0;
};
/// Returns those of the step that `count`, advanced already, counts last.
RowStep row_step(const RowOptimizerOptions& options, const StepCount& count);

/// Writes values uniform in (-bound, bound): a function of (key, row, column).
void first_values(std::uint64_t key, std::int64_t row, float bound, std::int64_t width, float* out);
/// Steps one row; `gradient` is [width].
void step_row(const RowStep& step, const float* gradient, std::int64_t width, float* row);
/// Adds `more` to `sum`, both [width].
void add_row(const float* more, std::int64_t width, float* sum);
/// Returns whether all of `values` [count] are finite.
bool all_finite(const float* values, std::int64_t count);

}  // namespace hopfeed
