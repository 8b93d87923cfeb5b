// Reads ahead: asks for a cache line that is needed soon.
#pragma once

namespace hopfeed {

// The empty asm is an effect in the compiler's eyes. GCC 12 takes a function that does nothing but prefetch
// for one without effect and drops its calls, and the reading ahead with them.

/// Asks for the line that holds `address`, which need not be mapped.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

/// Asks for the line that holds `address`, which will be written.
inline void prefetch_line_to_write(const void* address) {
  __builtin_prefetch(address, 1);
  asm volatile("");
}

}  // namespace hopfeed
