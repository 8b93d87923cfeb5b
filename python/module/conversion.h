// Turns a graph in NumPy arrays into a dataset folder, in this process: what `hopfeed-partition import numpy`
// does with files.
#pragma once
#include <nanobind/nanobind.h>

namespace hopfeed::python {

/// Binds hopfeed._core.make_dataset and digest_of.
void bind_conversion(nanobind::module_& module);

}  // namespace hopfeed::python
