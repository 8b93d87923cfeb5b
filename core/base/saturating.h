// Counts what a batch may have. Counts that no batch reaches are as good as each other; they must only not
// wrap.
#pragma once
#include <algorithm>
#include <cstdint>

namespace hopfeed {

inline constexpr std::int64_t kFarTooMany = std::int64_t{1} << 50;
/// Products and sums of counts, which are not negative, end at kFarTooMany instead of wrapping.
inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kFarTooMany : std::min(product, kFarTooMany);
}
inline std::int64_t saturating_sum(std::int64_t a, std::int64_t b) { return std::min(a + b, kFarTooMany); }

}  // namespace hopfeed
