// Who of several servers is asked, and how many questions are asked twice: by written-out times, without
// sockets.
#include "peers/answer_times.h"

#include <gtest/gtest.h>

#include "peers/replica_choice.h"
#include "peers/second_asks.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Clock = AnswerTimes::Clock;
using Seconds = AnswerTimes::Seconds;

const Clock::time_point kNow = Clock::time_point{} + 1h;

double milliseconds_of(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

TEST(AnswerTimes, TheMeanFollowsTheLastAnswers) {
  AnswerTimes times;
  EXPECT_FALSE(times.mean());
  EXPECT_FALSE(times.faded_mean(kNow));
  times.note(8ms, kNow);
  EXPECT_NEAR(times.mean()->count(), 0.008, 1e-9);
  times.note(16ms, kNow);
  EXPECT_NEAR(times.mean()->count(), 0.009, 1e-9);
  for (int i = 0; i < 100; ++i) times.note(2ms, kNow);
  EXPECT_NEAR(times.mean()->count(), 0.002, 1e-6);
}

TEST(AnswerTimes, SlowServer_IsWorthATryAfterSecondsAndOneAnswerTellsHowItIsNow) {
  AnswerTimes times;
  times.note(50ms, kNow);
  EXPECT_NEAR(times.faded_mean(kNow + 1s)->count(), 0.025, 1e-9);
  EXPECT_LT(*times.faded_mean(kNow + 7s), Seconds(0.0005));
  AnswerTimes still = times;
  still.note(50ms, kNow + 7s);
  EXPECT_NEAR(still.mean()->count(), 0.050, 1e-9);
  times.note(1ms, kNow + 7s);
  EXPECT_LT(*times.mean(), Seconds(0.0015));
}

TEST(AnswerTimes, OneWhoRefuses_CountsAsSlow) {
  AnswerTimes times;
  times.note(1ms, kNow);
  times.note_refusal(kNow);
  EXPECT_GE(*times.mean(), Seconds(1));
  EXPECT_LT(milliseconds_of(times.p99()), 1.3) << "a refusal is no answer";
}

TEST(AnswerTimes, P99_IsPassedByOneAnswerInAHundred) {
  AnswerTimes times;
  EXPECT_EQ(times.p99(), Clock::duration::zero());
  for (int i = 0; i < 50; ++i) times.note(1ms, kNow);
  times.note(300ms, kNow);
  EXPECT_GE(milliseconds_of(times.p99()), 300) << "of few the longest";
  EXPECT_LT(milliseconds_of(times.p99()), 360);
  for (int i = 0; i < 449; ++i) times.note(i % 50 == 0 ? 40ms : 1ms, kNow);
  EXPECT_GE(milliseconds_of(times.p99()), 40) << "300 ms is one in 500, and 40 ms one in 50";
  EXPECT_LT(milliseconds_of(times.p99()), 48);
  for (int i = 0; i < 10'000; ++i) times.note(2ms, kNow);
  EXPECT_GE(milliseconds_of(times.p99()), 2) << "what was slow is forgotten";
  EXPECT_LT(milliseconds_of(times.p99()), 2.4);
  for (int i = 0; i < 2'000; ++i) times.note(24h, kNow);
  EXPECT_GT(times.p99(), 10min) << "the last bucket has no end";
}

TEST(ReplicaChoice, TimeAndOpenQuestionsWeighAlike) {
  const auto chosen = [](std::vector<Replica> replicas) { return least_loaded(replicas); };
  EXPECT_EQ(chosen({{.recent = 3ms, .open = 0}, {.recent = 1ms, .open = 1}}), 1U) << "3 and 2";
  EXPECT_EQ(chosen({{.recent = 3ms, .open = 0}, {.recent = 1ms, .open = 3}}), 0U) << "3 and 4";
  EXPECT_EQ(chosen({{.recent = 1ms, .open = 2}, {.recent = 1ms, .open = 2}}), 0U)
      << "the first of equal ones";
  EXPECT_EQ(chosen({{.recent = 1us, .open = 0}, {.recent = {}, .open = 0}}), 1U) << "it was never asked";
  EXPECT_EQ(chosen({{.recent = {}, .open = 1}, {.recent = {}, .open = 0}}), 1U);
}

TEST(ReplicaChoice, OneWhoHangs_IsAsSlowAsItsOldestQuestionIsOld) {
  AnswerTimes times;
  EXPECT_FALSE(recent_time(times, {}, kNow));
  EXPECT_NEAR(recent_time(times, kNow - 4s, kNow)->count(), 4, 1e-9) << "and never answered";
  times.note(1ms, kNow - 2s);
  EXPECT_NEAR(recent_time(times, {}, kNow)->count(), 0.00025, 1e-9);
  EXPECT_NEAR(recent_time(times, kNow, kNow)->count(), 0.001, 1e-9)
      << "asked once, and not again for its age";
  EXPECT_NEAR(recent_time(times, kNow - 4s, kNow)->count(), 4, 1e-9);
  times.note(30ms, kNow - 2s);
  EXPECT_NEAR(recent_time(times, kNow - 30ms, kNow)->count(), times.mean()->count(), 1e-9)
      << "it may take that long";
  EXPECT_NEAR(recent_time(times, kNow - 40ms, kNow)->count(), 0.040, 1e-9);
}

TEST(SecondAsks, AreNeverMoreThanOneInTwentyAndComeInNoLongRow) {
  SecondAskBudget budget;
  std::int64_t questions = 0, twice = 0;
  EXPECT_FALSE(budget.take());
  for (; questions < 1'000; ++questions) {
    budget.note_question();
    if (budget.take()) ++twice;
    ASSERT_LE(twice * 20, questions + 1);
  }
  EXPECT_EQ(twice, 50);
  for (int i = 0; i < 100'000; ++i) budget.note_question();
  int row = 0;
  while (budget.take()) ++row;
  EXPECT_EQ(row, 16) << "of 5,000 that were not needed";
}

TEST(SecondAsks, LateQuestionsComeByTime) {
  LateQuestions<int> late;
  late.add(kNow + 3ms, 3);
  late.add(kNow + 1ms, 1);
  late.add(kNow + 2ms, 2);
  EXPECT_EQ(late.next([](int) { return true; }), kNow + 1ms);
  EXPECT_EQ(late.next([](int which) { return which != 1; }), kNow + 2ms) << "the first was answered";
  EXPECT_EQ(late.take(kNow + 2ms), std::vector{2});
  EXPECT_EQ(late.next([](int) { return false; }), std::nullopt) << "nobody is woken for nothing";
}

}  // namespace
}  // namespace hopfeed
