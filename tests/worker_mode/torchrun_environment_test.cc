// What the launcher's environment may look like.
#include "stream/torchrun_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/base/error.h"
#include "worker_mode/core_placement.h"

namespace hopfeed {
namespace {

/// Sets the launcher's variables for one scope, and only those that are given.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    clear();
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                             "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}) {
      unsetenv(name);
    }
  }
};

std::string refusal(const std::map<std::string, std::string>& values) {
  const Environment environment(values);
  try {
    torchrun_environment();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    return error.what();
  }
  return "";
}

TEST(TorchrunEnvironment, NothingSetMeansATrainerByItself) {
  const Environment environment({});
  EXPECT_FALSE(torchrun_environment());
}

TEST(TorchrunEnvironment, WhatTorchrunSetsIsRead) {
  const Environment environment({{"RANK", "3"},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "node0"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_RESTART_COUNT", "2"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const auto env = torchrun_environment();
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 3);
  EXPECT_EQ(env->world_size, 4);
  EXPECT_EQ(env->local.rank, 1);
  EXPECT_EQ(env->master_addr, "node0");
  EXPECT_EQ(env->master_port, 29500);
  EXPECT_EQ(env->restart_count, 2);
  EXPECT_TRUE(env->agent_store);
  EXPECT_FALSE(env->one_machine());
}

TEST(TorchrunEnvironment, APartOfItIsRefusedByName) {
  EXPECT_NE(refusal({{"RANK", "0"}}).find("WORLD_SIZE is not set"), std::string::npos);
  EXPECT_NE(refusal({{"WORLD_SIZE", "2"}}).find("RANK is not set"), std::string::npos);
  EXPECT_NE(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}).find("MASTER_ADDR is not set"),
      std::string::npos);
  EXPECT_NE(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}).find("MASTER_PORT is not set"),
      std::string::npos);
}

TEST(TorchrunEnvironment, NumbersOutOfRangeAreRefusedByName) {
  std::map<std::string, std::string> values{
      {"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  EXPECT_NE(refusal(values).find("RANK is '2'"), std::string::npos);
  values["RANK"] = "1x";
  EXPECT_NE(refusal(values).find("RANK is '1x'"), std::string::npos);
  values["RANK"] = "1";
  values["MASTER_PORT"] = "70000";
  EXPECT_NE(refusal(values).find("MASTER_PORT is '70000'"), std::string::npos);
}

TEST(TorchrunEnvironment, RanksOfThisMachineAreReadWithoutTheRest) {
  {
    const Environment environment({});
    EXPECT_EQ(local_ranks().world, 1);
    EXPECT_EQ(local_ranks().rank, 0);
  }
  const Environment environment({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "3"}});
  EXPECT_EQ(local_ranks().world, 3);
  EXPECT_EQ(local_ranks().rank, 1);
}

TEST(TorchrunEnvironment, WithoutLocalWorldSize_AllRanksMayBeOnThisMachine) {
  {
    const Environment environment({{"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}});  // as Lightning sets them
    EXPECT_EQ(local_ranks().rank, 1);
    EXPECT_EQ(local_ranks().world, 4);
    EXPECT_FALSE(local_ranks().known);
    EXPECT_TRUE(query_cores(2).cores.empty());  // nothing is placed
  }
  {
    const Environment environment(std::map<std::string, std::string>{{"LOCAL_RANK", "1"}});
    EXPECT_EQ(local_ranks().world, 2);
    EXPECT_FALSE(local_ranks().known);
  }
  {
    const Environment environment(std::map<std::string, std::string>{{"WORLD_SIZE", "1"}});
    EXPECT_EQ(local_ranks().world, 1);
    EXPECT_TRUE(local_ranks().known);
    EXPECT_FALSE(query_cores(2).cores.empty());
  }
  {
    const Environment environment({});
    tell_world_size(3);
    EXPECT_EQ(local_ranks().world, 3);
    EXPECT_FALSE(local_ranks().known);
    tell_world_size(1);
    EXPECT_TRUE(local_ranks().known);
  }
  const Environment environment(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}});
  EXPECT_FALSE(torchrun_environment()->one_machine());
}

TEST(TorchrunEnvironment, RanksOfThisMachineOutOfRangeAreRefusedByName) {
  std::map<std::string, std::string> values{{"RANK", "0"},        {"WORLD_SIZE", "2"},
                                            {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"},
                                            {"LOCAL_RANK", "2"},  {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_NE(refusal(values).find("LOCAL_RANK is '2'"), std::string::npos);
  values.erase("LOCAL_WORLD_SIZE");
  EXPECT_NE(refusal(values).find("LOCAL_RANK is '2', not a number from 0 to 1"), std::string::npos);
  values["LOCAL_WORLD_SIZE"] = "two";
  EXPECT_NE(refusal(values).find("LOCAL_WORLD_SIZE is 'two'"), std::string::npos);
  values["LOCAL_WORLD_SIZE"] = "4";
  EXPECT_NE(refusal(values).find("more than WORLD_SIZE 2"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
