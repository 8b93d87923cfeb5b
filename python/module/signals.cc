// See signals.h.
#include "python/module/signals.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace hopfeed::python {

void look_for_signals() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace hopfeed::python
