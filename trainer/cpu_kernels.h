// Has the inner loops of training on the CPU, free of Torch: sums of rows of a dense matrix in the order of
// an index, and activations. They are compiled for AVX-512, AVX2 and the baseline, chosen at start; lanes are
// features, so each gives the same bits.
#pragma once
#include <cstdint>

namespace hopfeed {

/// A MatrixView is a dense row-major matrix; rows may be padded.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;  // elements from row to row
  std::int64_t width;   // elements of a row
};

enum class Reduction {
  kMean,  // zero where a row is empty
  kSum,
  kSumOnto  // what is in the result counts too
};

/// Writes out[r] = reduction of x[col[k]], k in [rowptr[r], rowptr[r + 1]), for r in [begin, end). `out` is
/// dense, `width` elements a row.
void reduce_segments(const MatrixView<float>& x, const std::int64_t* rowptr, const std::int64_t* col,
                     std::int64_t begin, std::int64_t end, Reduction reduction, float* out);
void reduce_segments(const MatrixView<double>& x, const std::int64_t* rowptr, const std::int64_t* col,
                     std::int64_t begin, std::int64_t end, Reduction reduction, double* out);

/// A DropRule drops a unit where hash(key, row, column) < drop, so `drop` is the probability in units of
/// 2^-32 and nothing depends on how rows are shared out. 0 drops none.
struct DropRule {
  std::uint64_t key = 0;
  std::uint32_t drop = 0;
};

/// Writes out[r, f] = x[r, f] * scale where x is above 0 and the unit is kept, else 0, for r in [begin, end).
/// `out` is dense; it may be x.
void relu_dropout(const MatrixView<float>& x, DropRule rule, float scale, std::int64_t begin,
                  std::int64_t end, float* out);
void relu_dropout(const MatrixView<double>& x, DropRule rule, double scale, std::int64_t begin,
                  std::int64_t end, double* out);

/// Goes the way back: passed[r - begin, f] = gradient[r, f] * scale where out[r, f] is above 0, else 0, for r
/// in [begin, end), and their sums over r are added to `column_sums`. A null `out` passes all.
void relu_dropout_backward(const MatrixView<float>& gradient, const float* out, float scale,
                           std::int64_t begin, std::int64_t end, float* passed, float* column_sums);
void relu_dropout_backward(const MatrixView<double>& gradient, const double* out, double scale,
                           std::int64_t begin, std::int64_t end, double* passed, double* column_sums);

}  // namespace hopfeed
