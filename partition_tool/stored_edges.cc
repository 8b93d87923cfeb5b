// See stored_edges.h.
#include "partition_tool/stored_edges.h"

namespace hopfeed {

StoredRows::StoredRows(const Dataset& dataset, int edge_type, const Csc& csc)
    : csc_(csc), places_(csc.num_rows()) {
  for (const CscPart& part : dataset.csc(edge_type).parts) {
    for (std::int64_t row = 0; row < part.num_rows; ++row)
      places_[part.rows[row].original_id] = part.first_edge + part.rows[row].offset;
  }
}

void StoredRows::read(std::int64_t row, std::vector<EdgeEntry>& out) const {
  const std::int64_t begin = csc_.indptr[row], degree = csc_.indptr[row + 1] - begin;
  const std::size_t first = out.size();
  out.resize(first + degree);
  std::visit(
      [&](const auto& sources) {
        for (std::int64_t k = 0; k < degree; ++k)
          out[first + k] = {.source = sources[begin + k], .id = begin + k, .place = places_[row] + k};
      },
      csc_.indices);
  if (csc_.edge_id_kind != EdgeIds::kStored) return;
  std::visit(
      [&](const auto& ids) {
        for (std::int64_t k = 0; k < degree; ++k) out[first + k].id = ids[begin + k];
      },
      csc_.edge_ids);
}

}  // namespace hopfeed
