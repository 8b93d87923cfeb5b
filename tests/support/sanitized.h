// Tells whether this build is a sanitizer's, which is slower, maps terabytes of shadow memory, and opens
// files.
#pragma once

namespace hopfeed::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// ThreadSanitizer starts no threads in a fork of a process that has some.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace hopfeed::testing
