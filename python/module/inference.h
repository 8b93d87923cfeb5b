// What hopfeed.infer does with other machines, and where its layers lie between: tables of rows in a run's
// folder (results/run_folder.h), which hopfeed-server --results serves.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "core/base/ranked_set.h"
#include "core/dataset/row_table.h"

namespace hopfeed::python {

/// Fetched are rows of other machines' partitions that were brought here, by rising id.
struct Fetched {
  std::shared_ptr<const RankedSet> ids;
  std::shared_ptr<const void> keeps;  // what the rows lie in
  const std::byte* rows = nullptr;
  std::size_t row_bytes = 0;

  void add_to(RowTable& table) const {
    table.elsewhere = ids.get();
    table.elsewhere_rows = rows;
    table.elsewhere_stride = row_bytes;
  }
};

void bind_inference(nanobind::module_& module);

}  // namespace hopfeed::python
