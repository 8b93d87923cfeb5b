// Questions that are asked of a second server, since the first is late: when each is late, and how many may
// be asked so.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace hopfeed {

/// A SecondAskBudget allows one question in 20 to be asked twice, at any moment of those asked so far. What
/// is not used is kept for 16 at most, so that when a server hangs after a good hour not all its questions
/// are asked twice.
class SecondAskBudget {
 public:
  static constexpr std::int64_t kOneIn = 20, kBurst = 16;

  void note_question() { credit_ = std::min(credit_ + 1, kOneIn * kBurst); }
  /// Returns whether one more may be asked twice, which is then counted.
  bool take() {
    if (credit_ < kOneIn) return false;
    credit_ -= kOneIn;
    return true;
  }

 private:
  std::int64_t credit_ = 0;
};

/// LateQuestions are those that are out, by when they will be late.
template <class Ticket>
class LateQuestions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void add(Time late_at, Ticket ticket) { by_time_.emplace(late_at, ticket); }
  /// Takes those out that are late by now.
  std::vector<Ticket> take(Time now) {
    const auto end = by_time_.upper_bound(now);
    std::vector<Ticket> late;
    for (auto it = by_time_.begin(); it != end; ++it) late.push_back(it->second);
    by_time_.erase(by_time_.begin(), end);
    return late;
  }
  /// Takes those out, from the first on, that nobody waits for any more, and returns when the next is late.
  template <class IsOut>
  std::optional<Time> next(IsOut is_out) {
    while (!by_time_.empty() && !is_out(by_time_.begin()->second)) by_time_.erase(by_time_.begin());
    return by_time_.empty() ? std::nullopt : std::optional(by_time_.begin()->first);
  }

 private:
  std::multimap<Time, Ticket> by_time_;
};

}  // namespace hopfeed
