// Raises hopfeed::Error as Python's exceptions: a class of hopfeed/errors.py for each code.
#pragma once
namespace hopfeed::python {

/// From now on hopfeed's errors that leave a bound function are raised as those classes. The caller holds the
/// GIL.
void register_errors();

}  // namespace hopfeed::python
