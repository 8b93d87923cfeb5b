// See mean_aggregation.h.
#include "trainer/mean_aggregation.h"

#include <ATen/Parallel.h>

#include <vector>

#include "core/error.h"
#include "trainer/cpu_kernels.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kGrain = 256;  // rows handed to a thread at a time

template <class T>
MatrixView<T> view_of(const torch::Tensor& dense) {
  return {dense.const_data_ptr<T>(), dense.stride(0), dense.size(1)};
}

/// The transposed matrix: for each source the destinations of its edges, in the order of the edges (stable
/// counting sort).
CompressedRows transpose(const CompressedRows& rows, std::int64_t num_sources) {
  const std::int64_t* rowptr = rows.rowptr.const_data_ptr<std::int64_t>();
  const std::int64_t* col = rows.col.const_data_ptr<std::int64_t>();
  const std::int64_t num_edges = rowptr[rows.num_rows()];
  CompressedRows result{torch::zeros({num_sources + 1}, torch::kInt64),
                        torch::empty({num_edges}, torch::kInt64)};
  std::int64_t* begin = result.rowptr.mutable_data_ptr<std::int64_t>();
  std::int64_t* destination = result.col.mutable_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < num_edges; ++k) ++begin[col[k] + 1];
  for (std::int64_t s = 0; s < num_sources; ++s) begin[s + 1] += begin[s];
  std::vector<std::int64_t> next(begin, begin + num_sources);
  for (std::int64_t d = 0; d < rows.num_rows(); ++d) {
    for (std::int64_t k = rowptr[d]; k < rowptr[d + 1]; ++k) destination[next[col[k]]++] = d;
  }
  return result;
}

/// 1 / degree of each row, 0 where it is empty.
template <class T>
std::vector<T> shares(const CompressedRows& rows) {
  const std::int64_t* rowptr = rows.rowptr.const_data_ptr<std::int64_t>();
  std::vector<T> share(rows.num_rows());
  for (std::int64_t d = 0; d < rows.num_rows(); ++d) {
    const std::int64_t degree = rowptr[d + 1] - rowptr[d];
    share[d] = degree > 0 ? T{1} / static_cast<T>(degree) : T{0};
  }
  return share;
}

torch::Tensor forward_rows(const torch::Tensor& x, const CompressedRows& rows) {
  torch::Tensor out = torch::empty({rows.num_rows(), x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "mean_aggregate", [&] {
    at::parallel_for(0, rows.num_rows(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      segment_mean(view_of<scalar_t>(x), rows.rowptr.const_data_ptr<std::int64_t>(),
                   rows.col.const_data_ptr<std::int64_t>(), begin, end, out.mutable_data_ptr<scalar_t>());
    });
  });
  return out;
}

torch::Tensor backward_rows(const torch::Tensor& gradient, const CompressedRows& rows,
                            std::int64_t num_sources) {
  const CompressedRows transposed = transpose(rows, num_sources);
  torch::Tensor out = torch::empty({num_sources, gradient.size(1)}, gradient.options());
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "mean_aggregate_backward", [&] {
    const std::vector<scalar_t> share = shares<scalar_t>(rows);
    at::parallel_for(0, num_sources, kGrain, [&](std::int64_t begin, std::int64_t end) {
      segment_scaled_sum(
          view_of<scalar_t>(gradient), share.data(), transposed.rowptr.const_data_ptr<std::int64_t>(),
          transposed.col.const_data_ptr<std::int64_t>(), begin, end, out.mutable_data_ptr<scalar_t>());
    });
  });
  return out;
}

struct MeanAggregation : torch::autograd::Function<MeanAggregation> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& rowptr, const torch::Tensor& col) {
    context->save_for_backward({rowptr, col});
    context->saved_data["num_sources"] = x.size(0);
    return forward_rows(x.stride(1) == 1 ? x : x.contiguous(), {rowptr, col});
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const std::int64_t num_sources = context->saved_data["num_sources"].toInt();
    return {backward_rows(gradients[0].contiguous(), {saved[0], saved[1]}, num_sources), {}, {}};
  }
};

}  // namespace

CompressedRows CompressedRows::prefix(std::int64_t rows) const {
  return {rowptr.narrow(0, 0, rows + 1), col.narrow(0, 0, rowptr.const_data_ptr<std::int64_t>()[rows])};
}

CompressedRows compress_rows(const torch::Tensor& edge_index, std::int64_t num_rows,
                             std::int64_t num_sources) {
  CompressedRows rows{torch::zeros({num_rows + 1}, torch::kInt64), edge_index[0]};
  const std::int64_t num_edges = edge_index.size(1);
  const std::int64_t* source = edge_index.const_data_ptr<std::int64_t>();
  const std::int64_t* destination = source + num_edges;
  std::int64_t* end = rows.rowptr.mutable_data_ptr<std::int64_t>() + 1;
  std::int64_t row = 0;
  for (std::int64_t k = 0; k < num_edges; ++k) {
    if (destination[k] < row || destination[k] >= num_rows || source[k] < 0 || source[k] >= num_sources) {
      throw Error(ErrorCode::kCorrupt,
                  "edge_index: edge " + std::to_string(k) + " (" + std::to_string(source[k]) + " to " +
                      std::to_string(destination[k]) + ") does not fit a batch of " +
                      std::to_string(num_sources) + " nodes, " + std::to_string(num_rows) +
                      " of them expanded, in the order of destinations");
    }
    while (row < destination[k]) end[row++] = k;
  }
  while (row < num_rows) end[row++] = num_edges;
  return rows;
}

torch::Tensor mean_aggregate(const torch::Tensor& x, const CompressedRows& rows) {
  if (!x.is_cpu())
    throw Error(ErrorCode::kUnsupported, "mean_aggregate: the layers run on the CPU; move the tensor there");
  return MeanAggregation::apply(x, rows.rowptr, rows.col);
}

}  // namespace hopfeed
