// Shards of a dataset from sorted rows that Python's engines stream (partition_tool/tables).
#pragma once
#include <nanobind/nanobind.h>

namespace hopfeed::python {

void bind_tables(nanobind::module_& module);

}  // namespace hopfeed::python
