// Page policies of mapped files, and what the kernel says about them.
#include "core/base/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/scratch.h"

namespace hopfeed {
namespace {

class HugePagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hopfeed-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file_of(std::size_t bytes) {
    const std::filesystem::path path = folder_ / "file";
    const std::vector<char> zeros(bytes, 'x');
    std::ofstream(path, std::ios::binary).write(zeros.data(), static_cast<std::streamsize>(bytes));
    return path;
  }
  static void touch(std::span<const std::byte> bytes) {
    volatile std::byte sink{};
    for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) sink = bytes[at];
    (void)sink;
  }

  std::filesystem::path folder_;
};

TEST_F(HugePagesTest, PolicyThatDoesNotExist_IsRefusedByName) {
  try {
    parse_huge_pages("sometimes");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "huge pages 'sometimes' are none of auto, never, always");
  }
}

TEST_F(HugePagesTest, Never_MapsByPagesOf4KiB) {
  const MappedFile file(file_of(4 * kHugePageBytes), HugePages::kNever);
  touch(file.bytes());
  const std::span<const std::byte> ranges[] = {file.bytes()};
  const PageUse use = page_use(ranges);
  EXPECT_EQ(use.huge, 0u);
  EXPECT_EQ(use.resident, file.bytes().size());
}

// Which file systems have huge pages is not ours to say; that the policy means what it says is.
TEST_F(HugePagesTest, Always_GivesHugePagesAtOnceOrSaysThatItCannot) {
  const std::filesystem::path path = file_of(4 * kHugePageBytes + 5);
  try {
    const MappedFile file(path, HugePages::kAlways);
    const std::span<const std::byte> ranges[] = {file.bytes()};
    EXPECT_GE(page_use(ranges).huge, 3 * kHugePageBytes);  // before anybody touched it
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("use huge pages auto"), std::string::npos) << error.what();
  }
}

TEST_F(HugePagesTest, Always_LeavesSmallFilesAlone) {
  const MappedFile file(file_of(1000), HugePages::kAlways);
  EXPECT_EQ(file.bytes().size(), 1000u);
}

TEST_F(HugePagesTest, PageUse_CountsWhatWasTouched) {
  const MappedFile file(file_of(64 * kPageBytes), HugePages::kNever);
  const std::span<const std::byte> ranges[] = {file.bytes()};
  EXPECT_EQ(page_use({}).resident, 0u);
  touch(file.bytes());
  EXPECT_EQ(page_use(ranges).resident, 64 * kPageBytes);
}

TEST_F(HugePagesTest, Scratch_KeepsItsContentsWhenItGrowsOntoHugePages) {
  ScratchArray<std::uint32_t> scratch;
  scratch.reserve(100);
  for (std::uint32_t i = 0; i < 100; ++i) scratch[i] = i;
  scratch.reserve(3 * kHugePageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % kHugePageBytes, 0u);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(scratch[i], i);
  EXPECT_EQ(scratch[3 * kHugePageBytes - 1], 0u);
  for (std::uint32_t i = 0; i < 3 * kHugePageBytes; i += 1'000) scratch[i] = i;
  scratch.reserve(9 * kHugePageBytes);  // from huge pages to more of them
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % kHugePageBytes, 0u);
  for (std::uint32_t i = 0; i < 3 * kHugePageBytes; i += 1'000) EXPECT_EQ(scratch[i], i);
  EXPECT_EQ(scratch[9 * kHugePageBytes - 1], 0u);
  scratch[9 * kHugePageBytes - 1] = 1;
}

}  // namespace
}  // namespace hopfeed
