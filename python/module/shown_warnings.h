// What has failed and was helped (core/base/notes.h) is a RuntimeWarning in Python.
#pragma once

namespace hopfeed::python {

/// From now on; called once, when the module is loaded.
void show_warnings();

}  // namespace hopfeed::python
