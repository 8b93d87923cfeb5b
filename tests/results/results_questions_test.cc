// Questions about rows of a run and their answers: what is written is read, in few bytes; what is damaged is
// refused in one line.
#include "results/results_questions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

constexpr RunId kAskedRun{.high = 0x0123456789abcdef, .low = 42};
const LayerName kTable{.table = "m2.cites", .node_type = "paper"};
const std::vector<std::uint32_t> kAskedRows{0, 7, 8, 4'000'000'000};

ResultsQuestion rows_question() {
  return {.ask = ResultsAsk::kRows, .partition = 3, .run = kAskedRun, .name = kTable, .rows = kAskedRows};
}
ResultsQuestion fetched_question() {
  return {.ask = ResultsAsk::kFetched, .partition = 1, .run = kAskedRun, .name = kTable};
}
void refuse(const PeerBytes& bytes, const char* why) {
  expect_refused([&] { read_results_question(bytes); }, why, ErrorCode::kCorrupt);
}
/// A question as a writer that knows no rules writes it.
PeerBytes changed(const std::function<void(ResultsQuestion&)>& change) {
  ResultsQuestion question = rows_question();
  change(question);
  return write_results_question(question);
}

TEST(ResultsQuestions, AreReadAsTheyWereWritten) {
  for (const ResultsQuestion& question : {rows_question(), fetched_question()}) {
    const PeerBytes bytes = write_results_question(question);
    const ResultsQuestion read = read_results_question(bytes);
    EXPECT_EQ(read.ask, question.ask);
    EXPECT_EQ(read.partition, question.partition);
    EXPECT_EQ(read.run, kAskedRun);
    EXPECT_EQ(read.name, kTable);
    EXPECT_TRUE(std::ranges::equal(read.rows, question.rows));
  }
}

// docs/protocol.md
TEST(ResultsQuestions, HaveTheBytesOfTheProtocol) {
  const PeerBytes bytes = write_results_question(rows_question());
  ASSERT_EQ(bytes.size(), 40U + 8 + 8 + 16);
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  EXPECT_EQ(number(0, 4), 1U);
  EXPECT_EQ(number(4, 4), 3U);
  EXPECT_EQ(number(8, 8), kAskedRun.high);
  EXPECT_EQ(number(16, 8), kAskedRun.low);
  EXPECT_EQ(number(24, 4), 8U);
  EXPECT_EQ(number(28, 4), 5U);
  EXPECT_EQ(number(32, 8), 4U);
  EXPECT_EQ(std::memcmp(bytes.data() + 40, "m2.cites", 8), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 48, "paper\0\0\0", 8), 0);
  EXPECT_EQ(number(60, 4), 7U);
}

TEST(ResultsQuestions, WithTheirAnswerTakeLittleMoreThanTheRows) {
  std::vector<std::uint32_t> rows(32'768);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(3 * i);
  ResultsQuestion question = rows_question();
  question.rows = rows;
  constexpr std::size_t kRowBytes = 64 * sizeof(float);
  const std::size_t both =
      write_results_question(question).size() + write_results_rows(rows.size(), kRowBytes).bytes.size();
  EXPECT_LE(static_cast<double>(both), 1.02 * static_cast<double>(rows.size() * kRowBytes));
}

TEST(ResultsQuestions, WhatNobodyCanMeanIsRefused) {
  refuse(changed([](ResultsQuestion& q) { q.ask = static_cast<ResultsAsk>(3); }), "it is of kind 3");
  refuse(changed([](ResultsQuestion& q) { q.ask = static_cast<ResultsAsk>(0); }), "it is of kind 0");
  refuse(changed([](ResultsQuestion& q) { q.ask = ResultsAsk::kFetched; }), "another number of rows");
  refuse(changed([](ResultsQuestion& q) { q.rows = {}; }), "another number of rows");
  static const std::vector<std::uint32_t> twice{1, 1}, falling{2, 1};
  refuse(changed([](ResultsQuestion& q) { q.rows = twice; }), "its rows do not rise");
  refuse(changed([](ResultsQuestion& q) { q.rows = falling; }), "its rows do not rise");
  for (const char* table : {"", "..", "a/b", "../x", "H1", "a b", ".hidden"})
    refuse(changed([&](ResultsQuestion& q) { q.name.table = table; }), "it names no table");
  refuse(changed([](ResultsQuestion& q) { q.name.table.assign(65, 'a'); }), "it names no table");
  for (const char* type : {"", "..", "a/b", ".", "../../etc"})
    refuse(changed([&](ResultsQuestion& q) { q.name.node_type = type; }), "it names no table");
  refuse(changed([](ResultsQuestion& q) { q.name.node_type = std::string("a\0b", 3); }), "it names no table");
}

TEST(ResultsQuestions, CutAtEachByteOrLongerTheyAreRefused) {
  const PeerBytes whole = write_results_question(rows_question());
  for (std::size_t size = 0; size < whole.size(); ++size)
    refuse(PeerBytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), "cannot be read");
  PeerBytes longer = whole;
  longer.resize(whole.size() + 8);
  refuse(longer, "too many");
}

// Each byte, with each bit turned over: an Error, or another question that can be.
TEST(ResultsQuestions, WithBitsTurnedOverAreReadOrRefused) {
  const PeerBytes whole = write_results_question(rows_question());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      PeerBytes damaged = whole;
      damaged[at] ^= static_cast<std::byte>(1 << bit);
      try {
        EXPECT_TRUE(is_layer_name(read_results_question(damaged).name));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
        EXPECT_TRUE(is_text(error.what(), Lines::kOne));
      }
    }
  }
}

TEST(ResultsQuestions, LengthsThatOverflowAreRefused) {
  for (const std::size_t at : {24U, 28U, 32U}) {
    for (const std::uint64_t length :
         {std::uint64_t{0xffffffff}, std::uint64_t{1} << 61, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      PeerBytes bytes = write_results_question(rows_question());
      std::memcpy(bytes.data() + at, &length, at == 32 ? 8 : 4);
      refuse(bytes, "cannot be read");
    }
  }
}

// ---- answers

TEST(ResultsAnswersBytes, AreReadAsTheyWereWritten) {
  ResultsRoom room = write_results_rows(3, 20);
  ASSERT_EQ(room.rows.size(), 60U);
  for (std::size_t i = 0; i < room.rows.size(); ++i) room.rows[i] = static_cast<std::byte>(i);
  ASSERT_EQ(room.bytes.size(), 24U + 64);
  const ResultsAnswer answer = read_results_answer(room.bytes, 3, 20);
  EXPECT_EQ(answer.says, ResultsSays::kRows);
  ASSERT_EQ(answer.rows.size(), 60U);
  EXPECT_EQ(answer.rows[59], std::byte{59});
  for (const ResultsSays says : {ResultsSays::kNotYet, ResultsSays::kNobody, ResultsSays::kAnotherRun}) {
    EXPECT_EQ(read_results_answer(write_results_answer(says), 3, 20).says, says);
    EXPECT_EQ(read_results_answer(write_results_answer(says), 0, 0).says, says);
  }
  EXPECT_EQ(read_results_answer(write_results_answer(ResultsSays::kNoted), 0, 0).says, ResultsSays::kNoted);
}

TEST(ResultsAnswersBytes, OfAnotherQuestionAreRefused) {
  const auto refuse_answer = [](const PeerBytes& bytes, std::size_t count, std::size_t row_bytes,
                                const char* why) {
    expect_refused([&] { read_results_answer(bytes, count, row_bytes); }, why, ErrorCode::kCorrupt);
  };
  const PeerBytes rows = write_results_rows(3, 20).bytes;
  refuse_answer(rows, 4, 20, "it has 3 rows of 20 bytes, and 4 of 20 were asked for");
  refuse_answer(rows, 3, 16, "it has 3 rows of 20 bytes, and 3 of 16 were asked for");
  refuse_answer(rows, 0, 0, "it says 1, which answers another question");
  refuse_answer(write_results_answer(ResultsSays::kNoted), 3, 20,
                "it says 5, which answers another question");
  for (const std::uint64_t says : {std::uint64_t{0}, std::uint64_t{6}, ~std::uint64_t{0}})
    refuse_answer(write_results_answer(static_cast<ResultsSays>(says)), 3, 20, "answers another question");
  for (std::size_t size = 0; size < rows.size(); ++size)
    refuse_answer(PeerBytes(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(size)), 3, 20,
                  "cannot be read");
  PeerBytes longer = rows;
  longer.resize(rows.size() + 8);
  refuse_answer(longer, 3, 20, "too many");
}

TEST(ResultsAnswersBytes, TooLargeIsRefusedBeforeMemoryIsTaken) {
  EXPECT_NO_THROW(write_results_rows(0, ~std::size_t{0}));
  for (const auto& [count, row_bytes] :
       {std::pair{std::size_t{1}, kMaxPeerAnswer}, std::pair{kMaxPeerAnswer / 256, std::size_t{256}},
        std::pair{std::size_t{1} << 62, std::size_t{4}}})
    expect_refused([&] { write_results_rows(count, row_bytes); }, "ask for fewer", ErrorCode::kNoSpace);
}

}  // namespace
}  // namespace hopfeed
