// See compressed_rows.h.
#include "trainer/compressed_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {

CompressedRows CompressedRows::prefix(std::int64_t rows) const {
  const std::int64_t edges = rowptr.const_data_ptr<std::int64_t>()[rows];
  return {rowptr.narrow(0, 0, rows + 1), col.narrow(0, 0, edges),
          row.defined() ? row.narrow(0, 0, edges) : torch::Tensor()};
}

torch::Tensor CompressedRows::destinations() const {
  if (row.defined()) return row;
  return torch::repeat_interleave(rowptr.diff()).to(col.device());
}

CompressedRows CompressedRows::transposed(std::int64_t num_sources) const {
  const std::int64_t* begin = rowptr.const_data_ptr<std::int64_t>();
  const std::int64_t* source = col.const_data_ptr<std::int64_t>();
  const std::int64_t num_edges = begin[num_rows()];
  CompressedRows result{
      torch::zeros({num_sources + 1}, torch::kInt64), torch::empty({num_edges}, torch::kInt64), {}};
  std::int64_t* offset = result.rowptr.mutable_data_ptr<std::int64_t>();
  std::int64_t* destination = result.col.mutable_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < num_edges; ++k) ++offset[source[k] + 1];
  for (std::int64_t s = 0; s < num_sources; ++s) offset[s + 1] += offset[s];
  std::vector<std::int64_t> next(offset, offset + num_sources);
  for (std::int64_t d = 0; d < num_rows(); ++d) {
    for (std::int64_t k = begin[d]; k < begin[d + 1]; ++k) destination[next[source[k]]++] = d;
  }
  return result;
}

FilledRows::FilledRows(const CompressedRows& all) {
  const std::int64_t* rowptr = all.rowptr.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> filled, ends{0};
  for (std::int64_t row = 0; row < all.num_rows(); ++row) {
    if (rowptr[row + 1] == rowptr[row]) continue;
    filled.push_back(row);
    ends.push_back(rowptr[row + 1]);
  }
  ids = torch::tensor(filled, torch::kInt64);
  places = ids.to(all.col.device());
  rows = {torch::tensor(ends, torch::kInt64), all.col,
          all.row.defined() ? torch::searchsorted(places, all.row) : torch::Tensor()};
}

FilledRows FilledRows::below(std::int64_t end) const {
  const std::int64_t* first = ids.const_data_ptr<std::int64_t>();
  const std::int64_t kept = std::lower_bound(first, first + ids.size(0), end) - first;
  return {rows.prefix(kept), ids.narrow(0, 0, kept), places.narrow(0, 0, kept)};
}

CompressedRows compress_rows(const torch::Tensor& edge_index, std::int64_t num_rows,
                             std::int64_t num_sources) {
  CompressedRows rows{torch::zeros({num_rows + 1}, torch::kInt64), edge_index[0], edge_index[1]};
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

}  // namespace hopfeed
