// Ctrl-C, and whatever else Python's signal handlers do, while C++ waits.
#pragma once

namespace hopfeed::python {

/// Lets Python look for signals: a handler's exception (KeyboardInterrupt) leaves what waits. The caller does
/// not hold the GIL.
void look_for_signals();

}  // namespace hopfeed::python
