// Secrets of a user: who may open their files, and who sees the token.
#include "core/base/secrets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

TEST(Secrets, WhoMayOpenAFileIsToldByItsMode) {
  const testing::TempFolder folder;
  const fs::path file = folder.path() / "token";
  std::ofstream(file) << "a token";
  const auto told = [&](unsigned mode) {
    fs::permissions(file, static_cast<fs::perms>(mode));
    return open_to_others(file);
  };
  const std::string name = fmt::format("'{}' may be ", file.string());
  EXPECT_EQ(told(0600), "");
  EXPECT_EQ(told(0400), "");
  EXPECT_EQ(told(0711), "");
  EXPECT_EQ(told(0644), name + "read by its group and by all (mode 0644); chmod 600 it");
  EXPECT_EQ(told(0640), name + "read by its group (mode 0640); chmod 600 it");
  EXPECT_EQ(told(0602), name + "written by all (mode 0602); chmod 600 it");
  EXPECT_EQ(told(0664), name + "read and written by its group and by all (mode 0664); chmod 600 it");
  EXPECT_EQ(open_to_others(""), "");
  EXPECT_EQ(open_to_others(folder.path() / "nothing"), "");
  EXPECT_EQ(open_to_others(folder.path()), "") << "a folder is refused elsewhere";
}

TEST(Secrets, ATokenThatWasTakenOutOfTheEnvironmentIsKnownAllTheSame) {
  ASSERT_EQ(setenv(kTokenVariable, "sixteen-characters", 1), 0);
  EXPECT_EQ(environment_token(), "sixteen-characters");
  take_token_out_of_environment();
  EXPECT_EQ(std::getenv(kTokenVariable), nullptr);
  EXPECT_EQ(environment_token(), "sixteen-characters");
  take_token_out_of_environment();
  EXPECT_EQ(environment_token(), "sixteen-characters");
}

}  // namespace
}  // namespace hopfeed
