// Says how many random graphs the tests against the oracles take.
#pragma once
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"

namespace hopfeed::testing {

/// Returns a quarter of what HOPFEED_LONG_TESTS=1 takes. A sanitizer is ten times slower and gets fewer;
/// release sees the others.
inline int num_random_graphs() { return kSanitized ? 100 : long_tests() ? 1'000 : 250; }

}  // namespace hopfeed::testing
