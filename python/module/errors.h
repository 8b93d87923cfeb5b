// Raises hopfeed::Error as Python's exceptions: a class of hopfeed/errors.py for each code.
#pragma once
#include "core/base/error.h"

namespace hopfeed::python {

/// StateLost is raised as hopfeed.StateLost, whatever its code.
class StateLost : public Error {
 public:
  using Error::Error;
};

/// From now on hopfeed's errors that leave a bound function are raised as those classes. The caller holds the
/// GIL.
void register_errors();

}  // namespace hopfeed::python
