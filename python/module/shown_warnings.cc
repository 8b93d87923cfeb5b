// See shown_warnings.h.
#include "python/module/shown_warnings.h"

#include <nanobind/nanobind.h>

#include <string>

#include "core/base/error.h"
#include "core/base/notes.h"

namespace nb = nanobind;

namespace hopfeed::python {

void show_warnings() {
  take_warnings([](const std::string& line) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;
    // Where warnings are errors, this one cannot be thrown from here.
    if (PyErr_WarnEx(PyExc_RuntimeWarning, unmarked(line).c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
  });
}

}  // namespace hopfeed::python
