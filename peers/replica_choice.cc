// See replica_choice.h.
#include "peers/replica_choice.h"

#include <algorithm>
#include <tuple>

namespace hopfeed {

std::optional<AnswerTimes::Seconds> recent_time(const AnswerTimes& times,
                                                std::optional<AnswerTimes::Clock::time_point> oldest_open,
                                                AnswerTimes::Clock::time_point now) {
  if (!oldest_open) return times.faded_mean(now);
  const AnswerTimes::Clock::duration age = now - *oldest_open;
  const AnswerTimes::Seconds mean = times.mean().value_or(AnswerTimes::Seconds{});
  return age > times.p99() ? std::max<AnswerTimes::Seconds>(mean, age) : mean;
}

std::size_t least_loaded(std::span<const Replica> replicas) {
  // One without a time has a load of zero, and those among themselves go by their open questions.
  const auto load = [](const Replica& replica) {
    const double seconds = replica.recent ? replica.recent->count() : 0;
    return std::tuple(seconds * static_cast<double>(replica.open + 1), replica.open);
  };
  return static_cast<std::size_t>(std::ranges::min_element(replicas, {}, load) - replicas.begin());
}

}  // namespace hopfeed
