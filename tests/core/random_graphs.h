// How many random graphs an oracle is compared on.
#pragma once

namespace hopfeed::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kRandomGraphs = 100;  // ten times slower there, and release has seen the others
#else
inline constexpr int kRandomGraphs = 1'000;
#endif

}  // namespace hopfeed::testing
