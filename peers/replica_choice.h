// Who of several servers of a partition is asked: the one with the least (recent time x questions that it
// would have open).
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "peers/answer_times.h"

namespace hopfeed {

/// A Replica is what is known of a server that may be asked.
struct Replica {
  /// Recent time of an answer; nothing: it was never asked, and is tried before those that were.
  std::optional<AnswerTimes::Seconds> recent;
  std::size_t open = 0;  // questions that it has not answered
};

/// Returns the time that is expected of a server's answers; nothing: it was never asked. With questions open
/// it is that of its last answers; or how long the oldest question has been open, once that is longer than 99
/// of 100 answers took: who hangs is no longer quick. With none open, time makes it attractive again.
std::optional<AnswerTimes::Seconds> recent_time(const AnswerTimes& times,
                                                std::optional<AnswerTimes::Clock::time_point> oldest_open,
                                                AnswerTimes::Clock::time_point now);

/// Returns the place of the one to ask; of those that are as good as each other the first. `replicas` is not
/// empty.
std::size_t least_loaded(std::span<const Replica> replicas);

}  // namespace hopfeed
