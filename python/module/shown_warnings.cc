// See shown_warnings.h.
#include "python/module/shown_warnings.h"

#include <nanobind/nanobind.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/notes.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

struct Kept {
  std::mutex mutex;
  std::vector<std::string> lines;
};

Kept& kept() {
  static Kept* const all = new Kept;  // threads may warn while the interpreter ends
  return *all;
}

}  // namespace

void keep_warnings() {
  take_warnings([](const std::string& line) {
    const std::lock_guard lock(kept().mutex);
    kept().lines.push_back(unmarked(line));
  });
}

void raise_warnings() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(kept().mutex);
    lines.swap(kept().lines);
  }
  for (const std::string& line : lines)
    if (PyErr_WarnEx(PyExc_RuntimeWarning, line.c_str(), 1) != 0) throw nb::python_error();
}

}  // namespace hopfeed::python
