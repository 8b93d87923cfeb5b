// See damaged_row.h.
#include "core/dataset/damaged_row.h"

#include <fmt/format.h>

namespace hopfeed {

Error damage_error(const Dataset& dataset, int edge_type, const DamagedRow& damage) {
  const EdgeTypeMeta& edge = dataset.meta().edge_types[static_cast<std::size_t>(edge_type)];
  switch (damage.what) {
    case DamagedRow::What::kOffsets:
      return Error(
          ErrorCode::kCorrupt,
          fmt::format(
              "{}: row {} has offsets that do not rise within the {} edges; {}",
              (dataset.folder() / rows_path(dataset.files_of(damage.partition), edge)).string(), damage.row,
              dataset.csc(edge_type).parts[static_cast<std::size_t>(damage.partition)].num_edges,
              damage.partition < dataset.meta().partitions ? "run hopfeed-partition verify"
                                                           : "push it again, or remove the halo's folder"));
    case DamagedRow::What::kPosition:
      return Error(
          ErrorCode::kCorrupt,
          fmt::format(
              "{}: edge type {}: the row of node {} has a weight, a time or an order of an edge that it does "
              "not have; run hopfeed-partition verify",
              dataset.folder().string(), edge.folder(), damage.value));
    case DamagedRow::What::kWeight:
      return Error(
          ErrorCode::kCorrupt,
          fmt::format("{}: edge type {}: the row of node {} has a weight that is negative, infinite or "
                      "no number; run hopfeed-partition verify",
                      dataset.folder().string(), edge.folder(), damage.value));
    case DamagedRow::What::kSource:
      break;
  }
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}: edge type {} has source node {}, but there are {} nodes; run "
                           "hopfeed-partition verify",
                           dataset.folder().string(), edge.folder(), damage.value,
                           dataset.csc(edge_type).num_src_nodes));
}

}  // namespace hopfeed
