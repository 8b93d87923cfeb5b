// Descriptors that whoever started a program has closed.
#include "core/program/standard_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hopfeed {
namespace {

class StandardDescriptors : public ::testing::Test {
 protected:
  StandardDescriptors() { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

bool is_null(int fd) {
  struct stat of_fd {
  }, of_null{};
  return fstat(fd, &of_fd) == 0 && stat("/dev/null", &of_null) == 0 && S_ISCHR(of_fd.st_mode) &&
         of_fd.st_rdev == of_null.st_rdev;
}

/// A program without those of `mask` fills them, and no others; its exit code says what was wrong.
[[noreturn]] void fill_without(int mask) {
  bool was_null[3];
  for (int fd = 0; fd < 3; ++fd) {
    was_null[fd] = is_null(fd);
    if ((mask >> fd & 1) != 0) close(fd);
  }
  if (!fill_standard_descriptors()) _exit(1);
  for (int fd = 0; fd < 3; ++fd)
    if (is_null(fd) != (was_null[fd] || (mask >> fd & 1) != 0)) _exit(2);
  const int next = open("/dev/zero", O_RDONLY);
  _exit(next > 2 ? 0 : 3);
}

TEST_F(StandardDescriptors, ThoseThatAreClosed_BecomeDevNullAndTheOthersStay) {
  for (int mask = 0; mask < 8; ++mask)
    EXPECT_EXIT(fill_without(mask), ::testing::ExitedWithCode(0), "") << mask;
}

}  // namespace
}  // namespace hopfeed
