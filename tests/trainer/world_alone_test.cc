// A trainer that no launcher started.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "trainer/world.h"

namespace hopfeed {
namespace {

class WorldAlone : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) unsetenv(name);
  }
};

TEST_F(WorldAlone, NothingSetMeansATrainerByItself) {
  const World world;
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.rank(), 0);
}

TEST_F(WorldAlone, MoreTrainersThanTheLauncherStartedAreRefused) {
  try {
    World world({.expected_size = 2});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no torchrun environment"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST_F(WorldAlone, AnUnknownBackendIsRefused) { EXPECT_THROW(World({.backend = "mpi"}), Error); }

}  // namespace
}  // namespace hopfeed
