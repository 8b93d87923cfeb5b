// See errors.h.
#include "python/module/errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

/// hopfeed.errors.class_of, kept for as long as the process lives.
PyObject* class_of = nullptr;

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type = nb::handle(class_of)(to_string(error.code()));
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

void register_errors() {
  class_of = nb::object(nb::module_::import_("hopfeed.errors").attr("class_of")).release().ptr();
  nb::register_exception_translator(translate);
}

}  // namespace hopfeed::python
