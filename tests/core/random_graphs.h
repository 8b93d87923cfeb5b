// How many random graphs the tests against the oracles take.
#pragma once
#include "tests/support/processes.h"

namespace hopfeed::testing {

/// A quarter of what HOPFEED_LONG_TESTS=1 takes; a sanitizer is ten times slower, and release sees the
/// others.
inline int num_random_graphs() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 100;
#else
  return long_tests() ? 1'000 : 250;
#endif
}

}  // namespace hopfeed::testing
