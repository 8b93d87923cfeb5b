// For a test program that writes datasets by the hundred, which die with it. It needs no disk: its
// temporary folders lie in memory that is set aside (HOPFEED_TEST_MEMORY; tests/own_machine.sh), which is
// ten times as fast as a file system that keeps a journal. Where there is none, at least nothing waits for
// the disk.
#include <unistd.h>

#include <cstdlib>

namespace {

const bool in_memory = [] {
  const char* folder = std::getenv("HOPFEED_TEST_MEMORY");
  return folder != nullptr && ::setenv("TMPDIR", folder, 1) == 0;
}();

}  // namespace

/// Goes before the C library's.
extern "C" int fsync(int /*fd*/) { return 0; }
