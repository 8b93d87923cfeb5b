// See cpu_kernels.h.
#include "trainer/cpu_kernels.h"

#include <algorithm>

#include "core/base/each_processor.h"

namespace hopfeed {
namespace {

// Rows lie anywhere in tens of megabytes, so each is asked for this many edges before it is added.
constexpr std::int64_t kAhead = 6;
constexpr std::int64_t kLineBytes = 64;

template <class T>
[[gnu::always_inline]] inline void prefetch_row(const MatrixView<T>& x, std::int64_t row) {
  const char* at = reinterpret_cast<const char*>(x.data + row * x.stride);
  const char* end = at + x.width * static_cast<std::int64_t>(sizeof(T));
  for (; at < end; at += kLineBytes) __builtin_prefetch(at);
}

// The sum of one row's messages goes through `sum`, which stays in L1.
template <class T>
[[gnu::always_inline]] inline void sum_rows(const MatrixView<T>& x, const std::int64_t* rowptr,
                                            const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                            Reduction reduction, T* out) {
  const std::int64_t last = rowptr[end];
  for (std::int64_t k = rowptr[begin]; k < std::min(rowptr[begin] + kAhead, last); ++k)
    prefetch_row(x, col[k]);
  for (std::int64_t row = begin; row < end; ++row) {
    T* __restrict__ sum = out + row * x.width;
    if (reduction != Reduction::kSumOnto) std::fill_n(sum, x.width, T{0});
    for (std::int64_t k = rowptr[row]; k < rowptr[row + 1]; ++k) {
      if (k + kAhead < last) prefetch_row(x, col[k + kAhead]);
      const T* __restrict__ message = x.data + col[k] * x.stride;
      for (std::int64_t f = 0; f < x.width; ++f) sum[f] += message[f];
    }
    const std::int64_t degree = rowptr[row + 1] - rowptr[row];
    if (reduction != Reduction::kMean || degree < 2) continue;
    const T share = T{1} / static_cast<T>(degree);
    for (std::int64_t f = 0; f < x.width; ++f) sum[f] *= share;
  }
}

/// A bijection of 32 bits that mixes well ("lowbias32" of C. Wellons' search for such hashes).
[[gnu::always_inline]] inline std::uint32_t mix(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x7FEB352D;
  h ^= h >> 15;
  h *= 0x846CA68B;
  return h ^ (h >> 16);
}

// A NaN is not at or below 0: it shows, as in torch::relu.
template <class T>
[[gnu::always_inline]] inline void drop_rows(const MatrixView<T>& x, DropRule rule, T scale,
                                             std::int64_t begin, std::int64_t end, T* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = x.data + row * x.stride;
    T* to = out + row * x.width;
    if (rule.drop == 0) {
      for (std::int64_t f = 0; f < x.width; ++f) to[f] = in[f] <= T{0} ? T{0} : in[f] * scale;
      continue;
    }
    const auto number = static_cast<std::uint64_t>(row);
    const std::uint32_t row_key =
        mix(mix(static_cast<std::uint32_t>(rule.key) + static_cast<std::uint32_t>(number)) ^
            static_cast<std::uint32_t>(rule.key >> 32) ^ static_cast<std::uint32_t>(number >> 32));
    for (std::int64_t f = 0; f < x.width; ++f) {
      const std::uint32_t random = mix(row_key ^ (static_cast<std::uint32_t>(f) * 0x9E3779B1U));
      const bool stopped = in[f] <= T{0};
      to[f] = !stopped & (random >= rule.drop) ? in[f] * scale : T{0};
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void pass_rows(const MatrixView<T>& gradient, const T* out, T scale,
                                             std::int64_t begin, std::int64_t end, T* passed,
                                             T* __restrict__ column_sums) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* __restrict__ from = gradient.data + row * gradient.stride;
    T* __restrict__ to = passed + (row - begin) * gradient.width;
    if (out) {
      const T* __restrict__ unit = out + row * gradient.width;
      for (std::int64_t f = 0; f < gradient.width; ++f) to[f] = unit[f] <= T{0} ? T{0} : from[f] * scale;
    } else {
      for (std::int64_t f = 0; f < gradient.width; ++f) to[f] = from[f] * scale;
    }
    for (std::int64_t f = 0; f < gradient.width; ++f) column_sums[f] += to[f];
  }
}

}  // namespace

HOPFEED_EACH_PROCESSOR void reduce_segments(const MatrixView<float>& x, const std::int64_t* rowptr,
                                            const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                            Reduction reduction, float* out) {
  sum_rows(x, rowptr, col, begin, end, reduction, out);
}

HOPFEED_EACH_PROCESSOR void reduce_segments(const MatrixView<double>& x, const std::int64_t* rowptr,
                                            const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                            Reduction reduction, double* out) {
  sum_rows(x, rowptr, col, begin, end, reduction, out);
}

HOPFEED_EACH_PROCESSOR void relu_dropout(const MatrixView<float>& x, DropRule rule, float scale,
                                         std::int64_t begin, std::int64_t end, float* out) {
  drop_rows(x, rule, scale, begin, end, out);
}

HOPFEED_EACH_PROCESSOR void relu_dropout(const MatrixView<double>& x, DropRule rule, double scale,
                                         std::int64_t begin, std::int64_t end, double* out) {
  drop_rows(x, rule, scale, begin, end, out);
}

HOPFEED_EACH_PROCESSOR void relu_dropout_backward(const MatrixView<float>& gradient, const float* out,
                                                  float scale, std::int64_t begin, std::int64_t end,
                                                  float* passed, float* column_sums) {
  pass_rows(gradient, out, scale, begin, end, passed, column_sums);
}

HOPFEED_EACH_PROCESSOR void relu_dropout_backward(const MatrixView<double>& gradient, const double* out,
                                                  double scale, std::int64_t begin, std::int64_t end,
                                                  double* passed, double* column_sums) {
  pass_rows(gradient, out, scale, begin, end, passed, column_sums);
}

}  // namespace hopfeed
