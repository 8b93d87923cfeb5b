// The two loops under mean_aggregate and layer-wise inference, free of Torch: sums of rows of a dense matrix, in the order
// of the index. Compiled for AVX-512, AVX2 and the baseline, chosen at start; lanes are features, so every variant gives
// the same bits.
#pragma once
#include <cstdint>

namespace hopfeed {

/// A dense row-major matrix; rows may be padded.
template <class T> struct MatrixView {
  const T* data;
  std::int64_t stride;   // elements from row to row
  std::int64_t width;    // elements of a row
};

/// out[r] = mean of x[col[k]], k in [rowptr[r], rowptr[r + 1]), for r in [begin, end); zero where the row is empty.
/// `out` is dense, `width` elements a row.
void segment_mean(const MatrixView<float>& x, const std::int64_t* rowptr, const std::int64_t* col, std::int64_t begin,
                  std::int64_t end, float* out);
void segment_mean(const MatrixView<double>& x, const std::int64_t* rowptr, const std::int64_t* col, std::int64_t begin,
                  std::int64_t end, double* out);

/// out[r] = sum of scale[col[k]] * x[col[k]]: the backward pass of the mean, over the transposed rows.
void segment_scaled_sum(const MatrixView<float>& x, const float* scale, const std::int64_t* rowptr, const std::int64_t* col,
                        std::int64_t begin, std::int64_t end, float* out);
void segment_scaled_sum(const MatrixView<double>& x, const double* scale, const std::int64_t* rowptr, const std::int64_t* col,
                        std::int64_t begin, std::int64_t end, double* out);

}  // namespace hopfeed
