// State of training at the servers that own it (state/client), as Python reads, writes and learns it: the GIL
// is given up for all that waits, and signals are looked for meanwhile. hopfeed/state.py and
// hopfeed/dist_embedding.py are what people use.
#pragma once
#include <nanobind/nanobind.h>

namespace hopfeed::python {

/// Binds the classes StateOwners, StateTensor and StateRows.
void bind_state(nanobind::module_& module);

}  // namespace hopfeed::python
