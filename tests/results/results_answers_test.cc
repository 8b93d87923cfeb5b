// Answers from a run's folder: from renamed shards alone, while the run writes and removes them.
#include "results/results_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

constexpr RunId kRun{.high = 1, .low = 2}, kOther{.high = 3, .low = 4};
const LayerName kName{.table = "h1", .node_type = "paper"};
constexpr std::int64_t kRowBytes = 12, kHeight = 10;

/// Bytes that a row has wherever it lies.
std::byte byte_of(std::int64_t row, std::int64_t at) {
  return static_cast<std::byte>((row * 31 + at * 7 + 1) % 251);
}
std::vector<std::byte> rows_from(std::int64_t first, std::int64_t count) {
  std::vector<std::byte> bytes;
  for (std::int64_t row = first; row < first + count; ++row)
    for (std::int64_t at = 0; at < kRowBytes; ++at) bytes.push_back(byte_of(row, at));
  return bytes;
}

class Answers : public testing::WatchedTest<120> {
 protected:
  static void write(const LayerFolder& layers, std::int64_t first, std::int64_t count = kHeight,
                    const LayerName& name = kName) {
    layers.write(name, {.partition = 2, .first = first, .count = count, .row_bytes = kRowBytes},
                 rows_from(first, count));
  }
  static ResultsQuestion question(const std::vector<std::uint32_t>& rows, RunId run = kRun) {
    return {.ask = ResultsAsk::kRows, .partition = 2, .run = run, .name = kName, .rows = rows};
  }
  static void expect_rows(const PeerBytes& bytes, const std::vector<std::uint32_t>& rows) {
    const ResultsAnswer answer = read_results_answer(bytes, rows.size(), kRowBytes);
    ASSERT_EQ(answer.says, ResultsSays::kRows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::int64_t at = 0; at < kRowBytes; ++at)
        ASSERT_EQ(answer.rows[i * kRowBytes + static_cast<std::size_t>(at)], byte_of(rows[i], at))
            << "row " << rows[i];
  }
  ResultsSays says(const std::vector<std::uint32_t>& rows, RunId run = kRun) {
    return read_results_answer(answers.answer(question(rows, run)), rows.size(), kRowBytes).says;
  }

  testing::TempFolder scratch;
  const std::filesystem::path path = scratch.path() / "results";
  ResultsAnswers answers{path};
};

TEST_F(Answers, AreRowsOfWhicheverShards_InTheOrderAsked) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0, 10), write(folder.layers(), 10, 5), write(folder.layers(), 15, 30);
  std::vector<std::uint32_t> all(45), some{0, 3, 4, 9, 10, 14, 15, 31, 44}, one{12};
  std::iota(all.begin(), all.end(), 0U);
  for (const std::vector<std::uint32_t>& rows : {all, some, one})
    expect_rows(answers.answer(question(rows)), rows);
  EXPECT_EQ(answers.counts().questions, 3);
  EXPECT_EQ(answers.counts().rows, 55);
  EXPECT_EQ(answers.counts().bytes, 55 * kRowBytes);
  EXPECT_EQ(answers.counts().shards, 3);
}

TEST_F(Answers, WhatIsMissingIsStillToCome_OrNobodys) {
  EXPECT_EQ(says({0}), ResultsSays::kNobody) << "there is no folder";
  std::optional<RunFolder> folder(std::in_place, path, kRun, "{}");
  EXPECT_EQ(says({0}), ResultsSays::kNotYet);
  write(folder->layers(), 0), write(folder->layers(), 20);
  for (const std::vector<std::uint32_t>& rows :
       {std::vector<std::uint32_t>{10}, {0, 10}, {10, 25}, {0, 15, 25}, {30}, {0, 30}})
    EXPECT_EQ(says(rows), ResultsSays::kNotYet) << rows.back();
  folder.reset();
  EXPECT_EQ(says({0, 10}), ResultsSays::kNobody);
  EXPECT_EQ(says({0, 25}), ResultsSays::kRows) << "whoever has computed them";
  EXPECT_EQ(answers.counts().not_yet, 7);
}

TEST_F(Answers, AnotherRunIsToldApart_AndItsRowsToo) {
  {
    const RunFolder folder(path, kRun, "{}");
    write(folder.layers(), 0);
    EXPECT_EQ(says({0}), ResultsSays::kRows);
    EXPECT_EQ(says({0}, kOther), ResultsSays::kAnotherRun);
  }
  const RunFolder other(path, kOther, "{}");
  EXPECT_EQ(says({0}), ResultsSays::kAnotherRun);
  EXPECT_EQ(says({0}, kOther), ResultsSays::kNotYet) << "the shard that was mapped is the other run's";
  write(other.layers(), 0);
  EXPECT_EQ(says({0}, kOther), ResultsSays::kRows);
}

TEST_F(Answers, AShardThatTheRunHasRemovedIsNotAnsweredAny_AndItsSpaceIsFree) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0);
  EXPECT_EQ(says({0}), ResultsSays::kRows);
  EXPECT_EQ(answers.counts().shards, 1);
  folder.layers().remove(kName);
  EXPECT_EQ(says({0}), ResultsSays::kNotYet);
  const auto maps = [&] { return testing::file_bytes("/proc/self/maps").find(path.string()); };
  EXPECT_NE(maps(), std::string::npos);
  answers.let_go();
  EXPECT_EQ(answers.counts().shards, 0);
  EXPECT_EQ(maps(), std::string::npos);
  write(folder.layers(), 0);
  EXPECT_EQ(says({0}), ResultsSays::kRows);
}

// Else two machines would wait for each other without an end.
TEST_F(Answers, RowsThatWereFetchedAndRemovedAreAnError) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0);
  note_fetched(path, kRun, kName, 0);
  folder.remove(kName);
  expect_refused([&] { says({0}); }, "since all had fetched them", ErrorCode::kNotFound);
}

TEST_F(Answers, WhatARunThatIsOverHasLeftIsNotAnothersComputing) {
  write(RunFolder(path, kOther, "{}").layers(), 0);
  EXPECT_EQ(says({0}), ResultsSays::kNobody);
}

TEST_F(Answers, ShardsThatNobodyAsksForAreLetGo_OthersStay) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0), write(folder.layers(), 10);
  EXPECT_EQ(says({0, 10}), ResultsSays::kRows);
  for (int i = 0; i < 20; ++i) {
    answers.let_go();
    EXPECT_EQ(says({0}), ResultsSays::kRows);
  }
  EXPECT_EQ(answers.counts().shards, 1);
}

TEST_F(Answers, MoreShardsThanAreKeptAreAnsweredAllTheSame) {
  const RunFolder folder(path, kRun, "{}");
  std::vector<std::uint32_t> rows;
  for (std::uint32_t shard = 0; shard < 200; ++shard) {
    write(folder.layers(), shard * kHeight);
    rows.push_back(shard * 10 + shard % 10);
  }
  for (int i = 0; i < 2; ++i) expect_rows(answers.answer(question(rows)), rows);
  EXPECT_EQ(answers.counts().shards, 64);
}

TEST_F(Answers, AWordThatRowsAreFetchedIsNoted_ButOfNoOtherRun) {
  ResultsQuestion fetched{.ask = ResultsAsk::kFetched, .partition = 1, .run = kRun, .name = kName};
  const auto said = [&] { return read_results_answer(answers.answer(fetched), 0, 0).says; };
  EXPECT_EQ(said(), ResultsSays::kNobody);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is made where no run is";
  std::optional<RunFolder> folder(std::in_place, path, kRun, "{}");
  write(folder->layers(), 0);
  EXPECT_EQ(said(), ResultsSays::kNoted);
  EXPECT_EQ(said(), ResultsSays::kNoted) << "it may come twice";
  EXPECT_TRUE(folder->fetched(kName, 1));
  EXPECT_FALSE(folder->fetched(kName, 2));
  fetched.run = kOther, fetched.partition = 2;
  EXPECT_EQ(said(), ResultsSays::kAnotherRun);
  EXPECT_FALSE(folder->fetched(kName, 2));
  folder.reset();
  fetched.run = kRun;
  EXPECT_EQ(said(), ResultsSays::kNoted) << "a run that was killed goes on later";
}

TEST_F(Answers, TheLastNoteOfARunThatIsOverRemovesWhatItHasLeft_WhoeverNotesMeanwhile) {
  for (int round = 0; round < 20; ++round) {
    {
      const RunFolder folder(path, kRun, "{}", Sync::kNo);
      write(folder.layers(), 0);
      folder.leave({kName}, {0, 1, 3, 4});
    }
    EXPECT_EQ(says({0}), ResultsSays::kRows) << "it is still to be had";
    std::vector<std::thread> machines;
    for (const std::uint32_t partition : {0U, 1U, 3U, 4U})
      machines.emplace_back([this, partition] {
        EXPECT_EQ(read_results_answer(
                      answers.answer(
                          {.ask = ResultsAsk::kFetched, .partition = partition, .run = kRun, .name = kName}),
                      0, 0)
                      .says,
                  ResultsSays::kNoted);
      });
    for (std::thread& machine : machines) machine.join();
    EXPECT_EQ(says({0}), ResultsSays::kNobody);
    ASSERT_EQ(testing::files_of(path).size(), 2U) << "the lock, and that it has ended";
  }
}

TEST_F(Answers, ADamagedShardIsNamed_AndWhatIsInItsPlaceIsAnswered) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0), write(folder.layers(), 10);
  const std::filesystem::path shard = folder.layers().shard_path(kName, 2, 0);
  const std::string whole = testing::file_bytes(shard);
  for (const std::size_t at : {std::size_t{5}, whole.size() - 9, whole.size() - 30}) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    testing::write_bytes(shard, bytes);
    for (int i = 0; i < 2; ++i)
      expect_refused([&] { answers.answer(question({3})); }, shard.string(), ErrorCode::kCorrupt);
    EXPECT_EQ(says({13}), ResultsSays::kRows);
  }
  testing::write_bytes(shard, whole.substr(0, 20));
  expect_refused([&] { answers.answer(question({3})); }, shard.string(), ErrorCode::kCorrupt);
  testing::write_bytes(shard, whole);
  EXPECT_EQ(says({3}), ResultsSays::kRows);
}

// Names say where rows lie; what contradicts them is never read.
TEST_F(Answers, AShardUnderAnotherNameIsRefused) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 40);
  const std::filesystem::path moved = folder.layers().shard_path(kName, 2, 10);
  std::filesystem::rename(folder.layers().shard_path(kName, 2, 40), moved);
  expect_refused([&] { answers.answer(question({12})); }, moved.string(), ErrorCode::kCorrupt);
}

TEST_F(Answers, ShardsOfOtherWidthsAreRefused) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0);
  folder.layers().write(kName, {.partition = 2, .first = 10, .count = 1, .row_bytes = 4},
                        std::vector<std::byte>(4));
  expect_refused(
      [&] {
        answers.answer(question({3, 10}));
      },
      "rows of 12 bytes, and of 4", ErrorCode::kCorrupt);
}

TEST_F(Answers, AnAnswerThatIsTooLargeIsRefused) {
  const RunFolder folder(path, kRun, "{}");
  constexpr std::int64_t kWide = 4 << 20, kCount = 4;
  folder.layers().write(kName, {.partition = 2, .first = 0, .count = kCount, .row_bytes = kWide},
                        std::vector<std::byte>(kWide * kCount));
  folder.layers().write(kName, {.partition = 2, .first = 300, .count = 1, .row_bytes = kWide},
                        std::vector<std::byte>(kWide));
  std::vector<std::uint32_t> rows(301);
  std::iota(rows.begin(), rows.end(), 0U);
  expect_refused([&] { answers.answer(question(rows)); }, "an answer of 301 rows", ErrorCode::kNoSpace);
}

TEST_F(Answers, AWordOfTheRunThatIsDamagedIsNamed) {
  { const RunFolder folder(path, kRun, "{}"); }
  testing::write_bytes(path / "run.json", "{\"run\": 5}");
  expect_refused([&] { answers.answer(question({0})); }, "run.json", ErrorCode::kCorrupt);
}

// The run renames shards and removes tables while several ask: each answer is the rows, or that they are not
// there yet.
TEST_F(Answers, WhileARunWritesAndRemoves_AreRowsOrNotYet) {
  constexpr int kRounds = 40;
  constexpr std::int64_t kShards = 8;
  std::atomic<bool> ended{false};
  std::atomic<std::int64_t> whole{0}, early{0};
  std::optional<RunFolder> folder(std::in_place, path, kRun, "{}", Sync::kNo);
  std::vector<std::thread> askers;
  for (std::uint32_t asker = 0; asker < 2; ++asker)
    askers.emplace_back([&, asker] {
      for (std::uint32_t step = asker; !ended; ++step) {
        std::vector<std::uint32_t> rows;
        for (std::uint32_t row = step % 7; row < kShards * kHeight; row += 1 + step % 5) rows.push_back(row);
        const PeerBytes bytes = answers.answer(question(rows));
        const ResultsSays says = read_results_answer(bytes, rows.size(), kRowBytes).says;
        if (says == ResultsSays::kRows) {
          expect_rows(bytes, rows);
          ++whole;
        } else {
          EXPECT_EQ(says, ResultsSays::kNotYet);
          ++early;
        }
        if (step % 16 == 0) answers.let_go();
      }
    });
  for (int round = 0; round < kRounds || whole == 0 || early == 0; ++round) {
    for (std::int64_t shard = 0; shard < kShards; ++shard) write(folder->layers(), shard * kHeight);
    const std::int64_t before = whole;
    while (whole == before) std::this_thread::yield();  // the watchdog bounds it
    folder->layers().remove(kName);
  }
  ended = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_GT(whole, kRounds - 1);
  EXPECT_GT(early, 0);
}

TEST_F(Answers, OfOneShardThatManyAskForAtATime_AreItsRows) {
  const RunFolder folder(path, kRun, "{}");
  write(folder.layers(), 0);
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 8; ++asker)
    askers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) expect_rows(answers.answer(question({0, 9})), {0, 9});
    });
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(answers.counts().shards, 1);
  EXPECT_EQ(answers.counts().rows, 8 * 50 * 2);
}

}  // namespace
}  // namespace hopfeed
