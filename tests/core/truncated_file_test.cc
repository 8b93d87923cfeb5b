// F27: a file that shrinks while it is mapped ends a program in one line that names it; any other bus error
// kills as ever.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "core/base/mapped_file.h"
#include "core/program/bus_error.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

class TruncatedFile : public ::testing::Test {
 protected:
  TruncatedFile() {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    std::ofstream(path_) << std::string(100'000, 'x');
  }
  testing::TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.npy";
};

char read_behind_the_end(const std::filesystem::path& path, const MappedFile& file) {
  std::filesystem::resize_file(path, 4'096);
  return static_cast<char>(*const_cast<const volatile std::byte*>(file.bytes().data() + 50'000));
}

TEST_F(TruncatedFile, IsOneLineThatNamesIt) {
  EXPECT_EXIT(
      {
        const MappedFile file(path_);
        report_truncated_files("some-program");
        read_behind_the_end(path_, file);
      },
      ::testing::ExitedWithCode(2),
      "^some-program: .*/x.npy was truncated while it was being read; [^\n]*\n$");
}

TEST_F(TruncatedFile, OfManyMappings_TheRightOneIsNamed) {
  EXPECT_EXIT(
      {
        std::vector<MappedFile> files;
        for (int i = 0; i < 20; ++i) {
          const std::filesystem::path path = folder_.path() / std::to_string(i);
          std::ofstream(path) << std::string(100'000, 'x');
          files.emplace_back(path);
        }
        files.erase(files.begin(), files.begin() + 5);  // moves the others, and frees five
        const MappedFile again(path_);
        report_truncated_files("some-program");
        read_behind_the_end(folder_.path() / "13", files[8]);
      },
      ::testing::ExitedWithCode(2), "/13 was truncated");
}

TEST_F(TruncatedFile, BusErrorElsewhere_StillKills) {
  EXPECT_EXIT(
      {
        const MappedFile file(path_);
        report_truncated_files("some-program");
        const int fd = memfd_create("not-ours", 0);
        if (ftruncate(fd, 8'192) != 0) _exit(1);
        auto* bytes = static_cast<volatile char*>(mmap(nullptr, 8'192, PROT_READ, MAP_SHARED, fd, 0));
        if (ftruncate(fd, 0) != 0) _exit(1);
        _exit(bytes[5'000]);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace hopfeed
