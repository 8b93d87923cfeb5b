// Counts every request for memory of the program that counted_allocations.cc is linked into, and refuses it
// on demand: operator new and mmap (but for ThreadSanitizer), by which hopfeed gets all of it.
#pragma once
#include <cstdint>

namespace hopfeed::testing {

/// Returns the requests so far.
std::int64_t allocations();

/// While it lives there is memory for so many requests more, and none for those after them.
class MemoryEnds {
 public:
  explicit MemoryEnds(std::int64_t after);
  ~MemoryEnds();
  MemoryEnds(const MemoryEnds&) = delete;
  MemoryEnds& operator=(const MemoryEnds&) = delete;
};

/// While it lives, requests of all other threads than its own wait: a thread can be stopped in the middle of
/// what asks for memory, and with the locks that it holds there.
class OthersWaitForMemory {
 public:
  OthersWaitForMemory();
  ~OthersWaitForMemory();
  OthersWaitForMemory(const OthersWaitForMemory&) = delete;
  OthersWaitForMemory& operator=(const OthersWaitForMemory&) = delete;
  static int waiting();  // threads
};

}  // namespace hopfeed::testing
