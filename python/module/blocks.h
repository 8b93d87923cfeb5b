// Blocks of rows with all their in-edges, as inference by layers reads them (hopfeed/results).
#pragma once
#include <nanobind/nanobind.h>

namespace hopfeed::python {

void bind_blocks(nanobind::module_& module);

}  // namespace hopfeed::python
