// AnswerTimes are the times in which a server has answered of late: their mean, which weighs who is asked
// next, and the time that 99 of 100 answers stay below, behind which another is asked too. Both forget: a
// mean is worth half of what it was after each second without an answer, so that one who was slow is tried
// again, and the answer to that one question says how it is now.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hopfeed {

class AnswerTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// An answer has come, `took` after its question was sent.
  void note(Clock::duration took, Clock::time_point now);
  /// The server has refused a question. That was quick, and is no reason to ask it first.
  void note_refusal(Clock::time_point now);
  /// Returns the mean as it was at the last answer; nothing: there was none.
  std::optional<Seconds> mean() const;
  /// Returns the mean, halved for each second since the last answer.
  std::optional<Seconds> faded_mean(Clock::time_point now) const;
  /// Returns what 99 of 100 of the last answers, some hundreds to a thousand, have stayed below, rounded up
  /// by a fifth at most; of fewer than 100 the longest. Zero: there was none.
  Clock::duration p99() const;

 private:
  void blend(Seconds sample, Clock::time_point now);

  static constexpr std::size_t kBuckets = 96;  // four for each doubling of 64 us
  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint32_t total_ = 0;
  Seconds mean_{};
  bool any_ = false;
  Clock::time_point last_;
};

}  // namespace hopfeed
