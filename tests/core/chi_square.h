// Tests goodness of fit of draws by chi-square. The p-value comes from the Wilson-Hilferty approximation,
// good to three digits for the degrees of freedom used here.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace hopfeed::testing {

inline double normal_tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// Returns the chance of a statistic at least this large with `freedom` degrees of freedom.
inline double chi_square_tail(double statistic, double freedom) {
  const double t = std::cbrt(statistic / freedom);
  return normal_tail((t - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom)));
}

/// Returns the p-value of `counts` against equal chances.
inline double uniform_p_value(const std::vector<std::int64_t>& counts) {
  double total = 0;
  for (std::int64_t c : counts) total += static_cast<double>(c);
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (std::int64_t c : counts)
    statistic += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  return chi_square_tail(statistic, static_cast<double>(counts.size()) - 1);
}

/// Tells whether a p-value is plausible: a fair sampler's is with all but one chance in a million on either
/// side.
inline bool plausible(double p) { return p > 1e-6 && p < 1 - 1e-6; }

}  // namespace hopfeed::testing
