// The inner loops of training on the CPU, free of Torch: sums of rows of a dense matrix in the order of an
// index, and dropout. Compiled for AVX-512, AVX2 and the baseline, chosen at start; lanes are features, so
// each gives the same bits.
#pragma once
#include <cstdint>

namespace hopfeed {

/// A dense row-major matrix; rows may be padded.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;  // elements from row to row
  std::int64_t width;   // elements of a row
};

/// out[r] = mean of x[col[k]], k in [rowptr[r], rowptr[r + 1]), for r in [begin, end); zero where the row is
/// empty. `out` is dense, `width` elements a row.
void segment_mean(const MatrixView<float>& x, const std::int64_t* rowptr, const std::int64_t* col,
                  std::int64_t begin, std::int64_t end, float* out);
void segment_mean(const MatrixView<double>& x, const std::int64_t* rowptr, const std::int64_t* col,
                  std::int64_t begin, std::int64_t end, double* out);

/// out[r] = sum of scale[col[k]] * x[col[k]]: the backward pass of the mean, over the transposed rows.
void segment_scaled_sum(const MatrixView<float>& x, const float* scale, const std::int64_t* rowptr,
                        const std::int64_t* col, std::int64_t begin, std::int64_t end, float* out);
void segment_scaled_sum(const MatrixView<double>& x, const double* scale, const std::int64_t* rowptr,
                        const std::int64_t* col, std::int64_t begin, std::int64_t end, double* out);

/// out[r, f] = x[r, f] * scale where x is above 0 and the unit is kept, else 0, for r in [begin, end). A unit
/// is dropped where hash(key, r, f) < drop, so `drop` is the probability in units of 2^-32 and nothing
/// depends on how rows are shared out.
void relu_dropout(const MatrixView<float>& x, std::uint64_t key, std::uint32_t drop, float scale,
                  std::int64_t begin, std::int64_t end, float* out);
void relu_dropout(const MatrixView<double>& x, std::uint64_t key, std::uint32_t drop, double scale,
                  std::int64_t begin, std::int64_t end, double* out);

}  // namespace hopfeed
