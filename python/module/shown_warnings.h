// What has failed and was helped (core/base/notes.h) is a RuntimeWarning in Python.
#pragma once

namespace hopfeed::python {

/// Keeps warnings from now on, until they are raised; called once, when the module is loaded.
void keep_warnings();
/// Has Python warn of what came since the last call. The caller holds the GIL, and no lock: filters and
/// handlers of warnings are the user's. Throws nanobind's python_error where they raise.
void raise_warnings();

}  // namespace hopfeed::python
