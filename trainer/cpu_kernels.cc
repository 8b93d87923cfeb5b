// See cpu_kernels.h.
#include "trainer/cpu_kernels.h"

#include <algorithm>

namespace hopfeed {
namespace {

// Rows lie anywhere in tens of megabytes, so each is asked for this many edges before it is added.
constexpr std::int64_t kAhead = 6;
constexpr std::int64_t kLineBytes = 64;

template <class T>
struct Unscaled {
  T operator()(T value, std::int64_t) const { return value; }
};
template <class T>
struct ScaledBy {
  const T* scale;
  T operator()(T value, std::int64_t source) const { return scale[source] * value; }
};

template <class T>
[[gnu::always_inline]] inline void prefetch_row(const MatrixView<T>& x, std::int64_t row) {
  const char* at = reinterpret_cast<const char*>(x.data + row * x.stride);
  const char* end = at + x.width * static_cast<std::int64_t>(sizeof(T));
  for (; at < end; at += kLineBytes) __builtin_prefetch(at);
}

// The sum of one row's messages goes through `sum`, which stays in L1.
template <class T, class Weigh>
[[gnu::always_inline]] inline void sum_rows(const MatrixView<T>& x, Weigh weigh, const std::int64_t* rowptr,
                                            const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                            T* out, bool mean) {
  const std::int64_t last = rowptr[end];
  for (std::int64_t k = rowptr[begin]; k < std::min(rowptr[begin] + kAhead, last); ++k)
    prefetch_row(x, col[k]);
  for (std::int64_t row = begin; row < end; ++row) {
    T* __restrict__ sum = out + row * x.width;
    std::fill_n(sum, x.width, T{0});
    for (std::int64_t k = rowptr[row]; k < rowptr[row + 1]; ++k) {
      if (k + kAhead < last) prefetch_row(x, col[k + kAhead]);
      const std::int64_t source = col[k];
      const T* __restrict__ message = x.data + source * x.stride;
      for (std::int64_t f = 0; f < x.width; ++f) sum[f] += weigh(message[f], source);
    }
    const std::int64_t degree = rowptr[row + 1] - rowptr[row];
    if (!mean || degree < 2) continue;
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

template <class T>
[[gnu::always_inline]] inline void drop_rows(const MatrixView<T>& x, std::uint64_t key, std::uint32_t drop,
                                             T scale, std::int64_t begin, std::int64_t end, T* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    const auto number = static_cast<std::uint64_t>(row);
    const std::uint32_t row_key =
        mix(mix(static_cast<std::uint32_t>(key) + static_cast<std::uint32_t>(number)) ^
            static_cast<std::uint32_t>(key >> 32) ^ static_cast<std::uint32_t>(number >> 32));
    const T* __restrict__ in = x.data + row * x.stride;
    T* __restrict__ to = out + row * x.width;
    for (std::int64_t f = 0; f < x.width; ++f) {
      const std::uint32_t random = mix(row_key ^ (static_cast<std::uint32_t>(f) * 0x9E3779B1U));
      const bool stopped = in[f] <= T{0};  // a NaN is not: it shows, as in torch::relu
      to[f] = !stopped & (random >= drop) ? in[f] * scale : T{0};
    }
  }
}

}  // namespace

#define HOPFEED_EACH_PROCESSOR [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]

HOPFEED_EACH_PROCESSOR void segment_mean(const MatrixView<float>& x, const std::int64_t* rowptr,
                                         const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                         float* out) {
  sum_rows(x, Unscaled<float>{}, rowptr, col, begin, end, out, true);
}

HOPFEED_EACH_PROCESSOR void segment_mean(const MatrixView<double>& x, const std::int64_t* rowptr,
                                         const std::int64_t* col, std::int64_t begin, std::int64_t end,
                                         double* out) {
  sum_rows(x, Unscaled<double>{}, rowptr, col, begin, end, out, true);
}

HOPFEED_EACH_PROCESSOR void segment_scaled_sum(const MatrixView<float>& x, const float* scale,
                                               const std::int64_t* rowptr, const std::int64_t* col,
                                               std::int64_t begin, std::int64_t end, float* out) {
  sum_rows(x, ScaledBy<float>{scale}, rowptr, col, begin, end, out, false);
}

HOPFEED_EACH_PROCESSOR void segment_scaled_sum(const MatrixView<double>& x, const double* scale,
                                               const std::int64_t* rowptr, const std::int64_t* col,
                                               std::int64_t begin, std::int64_t end, double* out) {
  sum_rows(x, ScaledBy<double>{scale}, rowptr, col, begin, end, out, false);
}

HOPFEED_EACH_PROCESSOR void relu_dropout(const MatrixView<float>& x, std::uint64_t key, std::uint32_t drop,
                                         float scale, std::int64_t begin, std::int64_t end, float* out) {
  drop_rows(x, key, drop, scale, begin, end, out);
}

HOPFEED_EACH_PROCESSOR void relu_dropout(const MatrixView<double>& x, std::uint64_t key, std::uint32_t drop,
                                         double scale, std::int64_t begin, std::int64_t end, double* out) {
  drop_rows(x, key, drop, scale, begin, end, out);
}

}  // namespace hopfeed
