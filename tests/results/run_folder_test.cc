// Promises of a run's folder: one run at a time, what is left of the same run is gone on with, and readers
// can tell whether anybody computes.
#include "results/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

constexpr RunId kOne{.high = 1, .low = 2}, kOther{.high = 3, .low = 4};
const LayerName kName{.table = "h1", .node_type = "paper"};

struct RunFolders : ::testing::Test {
  testing::TempFolder scratch;
  std::filesystem::path path = scratch.path() / "results";
  static void write_a_shard(const RunFolder& folder) {
    const std::vector<std::byte> rows(8);
    folder.layers().write(kName, {.partition = 0, .first = 0, .count = 2, .row_bytes = 4}, rows);
  }
};

TEST_F(RunFolders, OneRunAtATime) {
  const RunFolder folder(path, kOne, R"({"model": "GraphSAGE"})");
  for (const RunId run : {kOne, kOther})
    expect_refused([&] { RunFolder(path, run, "{}"); }, path.string(), ErrorCode::kBusy);
}

TEST_F(RunFolders, TheSameRunGoesOn_AnotherBeginsAnew) {
  write_a_shard(RunFolder(path, kOne, "{}"));
  { EXPECT_TRUE(RunFolder(path, kOne, "{}").layers().has(kName, 0, 0)); }
  { EXPECT_FALSE(RunFolder(path, kOther, "{}").layers().has(kName, 0, 0)); }
  EXPECT_EQ(run_state(path, kOne), RunState::kAnotherIsOver);
}

TEST_F(RunFolders, WhatOthersHaveYetToFetchStaysFromAnotherRun) {
  {
    const RunFolder folder(path, kOne, "{}");
    write_a_shard(folder);
    folder.leave({kName}, {1, 2});
  }
  note_fetched(path, kOne, kName, 1);
  expect_refused([&] { RunFolder(path, kOther, "{}"); },
                 path.string() + " has rows of an earlier run, which the machine with partition 2 has yet",
                 ErrorCode::kBusy);
  EXPECT_TRUE(std::filesystem::exists(layers_of(path, kOne).shard_path(kName, 0, 0)));
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    note_fetched(path, kOne, kName, 2);
  });
  wait_until_fetched(path, kOther, std::chrono::seconds(60));
  server.join();
  EXPECT_TRUE(RunFolder(path, kOther, "{}").is_new());
}

// F73
TEST_F(RunFolders, AFolderWhoseRowsAServerRemovesIsWaitedFor) {
  std::filesystem::create_directory(path);
  const int file = ::open((path / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(file, F_OFD_SETLK, &lock), 0);
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    ::close(file);
  });
  EXPECT_TRUE(RunFolder(path, kOne, "{}").is_new());
  server.join();
}

TEST_F(RunFolders, ReadersSeeWhetherItComputes) {
  expect_refused([&] { run_state(path, kOne); }, path.string(), ErrorCode::kNotFound);
  std::optional<RunFolder> folder(std::in_place, path, kOne, "{}");
  EXPECT_EQ(run_state(path, kOne), RunState::kComputing);
  EXPECT_EQ(run_state(path, kOther), RunState::kAnother);
  folder.reset();
  EXPECT_EQ(run_state(path, kOne), RunState::kNobody);
  EXPECT_EQ(run_state(path, kOther), RunState::kAnotherIsOver);
  std::filesystem::remove_all(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(run_state(path, kOne), RunState::kNobody);
}

TEST_F(RunFolders, ReadersDoNotHoldARunBack) {
  { const RunFolder folder(path, kOne, "{}"); }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(run_state(path, kOne), RunState::kNobody);
  const RunFolder folder(path, kOne, "{}");
}

TEST_F(RunFolders, WhoeverHasFetchedIsNoted) {
  const RunFolder folder(path, kOne, "{}");
  write_a_shard(folder);
  EXPECT_FALSE(folder.fetched(kName, 1));
  note_fetched(path, kOne, kName, 1);
  EXPECT_TRUE(folder.fetched(kName, 1));
  EXPECT_FALSE(folder.fetched(kName, 2));
}

TEST_F(RunFolders, AFolderOfTheUserIsLeftAlone) {
  std::filesystem::create_directories(path);
  testing::write_bytes(path / "thesis.tex", "words");
  expect_refused([&] { RunFolder(path, kOne, "{}"); }, "thesis.tex");
  EXPECT_EQ(testing::files_of(path).size(), 1U);
}

TEST_F(RunFolders, FoldersOfTheUserWithOurNamesAreLeftAlone) {
  for (const char* name : {"layers", "boundary", "fetched"}) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path / name);
    testing::write_bytes(path / name / "source.py", "words");
    expect_refused([&] { RunFolder(path, kOne, "{}"); }, name);
    EXPECT_EQ(testing::files_of(path).size(), 1U);
  }
}

TEST_F(RunFolders, RowsThatOthersHaveFetchedAreToldAsRemoved) {
  const RunFolder folder(path, kOne, "{}");
  note_fetched(path, kOne, kName, 1);
  EXPECT_FALSE(was_removed(path, kOne, kName)) << "there were none";
  write_a_shard(folder);
  note_fetched(path, kOne, kName, 1);
  EXPECT_FALSE(was_removed(path, kOne, kName));
  folder.remove(kName);
  EXPECT_TRUE(was_removed(path, kOne, kName));
}

TEST_F(RunFolders, AWordOfTheRunThatIsDamagedIsNone) {
  write_a_shard(RunFolder(path, kOne, "{}"));
  testing::write_bytes(path / "run.json", "{\"run\": 5");
  EXPECT_FALSE(RunFolder(path, kOne, "{}").layers().has(kName, 0, 0));
}

TEST_F(RunFolders, WhatIsLeftGoesBehindTheLastNote) {
  {
    RunFolder folder(path, kOne, "{}");
    write_a_shard(folder);
    folder.leave({kName}, {1, 2});
    note_fetched(path, kOne, kName, 1);
    note_fetched(path, kOne, kName, 2);
    EXPECT_FALSE(remove_if_fetched(path)) << "the run is not over";
    std::filesystem::remove_all(path / "fetched");
  }
  EXPECT_EQ(run_state(path, kOne), RunState::kNobody);
  note_fetched(path, kOne, kName, 1);
  EXPECT_FALSE(remove_if_fetched(path));
  note_fetched(path, kOne, kName, 2);
  EXPECT_TRUE(remove_if_fetched(path));
  EXPECT_TRUE(has_ended(path, kOne));
  for (const auto& [file, bytes] : testing::files_of(path))
    EXPECT_TRUE(file == ".lock" || file == "ended.json");
}

TEST_F(RunFolders, ARunThatGoesOnHasNothingLeft) {
  {
    RunFolder left(path, kOne, "{}");
    write_a_shard(left);
    left.leave({kName}, {1});
  }
  const RunFolder folder(path, kOne, "{}");
  note_fetched(path, kOne, kName, 1);
  EXPECT_FALSE(remove_if_fetched(path));
  EXPECT_EQ(run_state(path, kOne), RunState::kComputing);
}

TEST_F(RunFolders, ClearedItHasNothingButTheLockAndThatItHasEnded) {
  RunFolder folder(path, kOne, "{}");
  write_a_shard(folder);
  note_fetched(path, kOne, kName, 1);
  folder.clear();
  EXPECT_TRUE(has_ended(path, kOne) && !has_ended(path, kOther) && !has_run(path, kOne));
  for (const auto& [file, bytes] : testing::files_of(path))
    EXPECT_TRUE(file == ".lock" || file == "ended.json");
}

TEST_F(RunFolders, ARunThatBeginsAgainHasNotEnded_AndANoteOfAnotherIsNoneOfIts) {
  {
    RunFolder folder(path, kOne, "{}");
    folder.clear();
  }
  const RunFolder folder(path, kOne, "{}");
  EXPECT_TRUE(!has_ended(path, kOne) && has_run(path, kOne));
  note_fetched(path, kOther, kName, 1);
  EXPECT_FALSE(folder.fetched(kName, 1));
}

}  // namespace
}  // namespace hopfeed
