// See answer_times.h.
#include "peers/answer_times.h"

#include <algorithm>
#include <cmath>

namespace hopfeed {
namespace {

constexpr double kShortest = 64e-6;  // seconds that the first bucket ends at
constexpr double kBucketsOfADoubling = 4;
constexpr double kOldShare = 7.0 / 8;        // of the mean in the next one, where answers follow each other
constexpr double kHalved = 1;                // seconds after which the mean is worth half
constexpr AnswerTimes::Seconds kRefused{1};  // what a refusal counts as, at least
constexpr std::uint32_t kRemembered = 1024;  // then all counts are halved

std::size_t bucket_of(double seconds, std::size_t buckets) {
  if (seconds <= kShortest) return 0;
  const double at = std::ceil(std::log2(seconds / kShortest) * kBucketsOfADoubling);
  return at < static_cast<double>(buckets) ? static_cast<std::size_t>(at) : buckets - 1;
}

double share_left(AnswerTimes::Clock::duration age) {
  return std::exp2(-AnswerTimes::Seconds(age).count() / kHalved);
}

}  // namespace

void AnswerTimes::blend(Seconds sample, Clock::time_point now) {
  const double old = any_ ? kOldShare * share_left(now - last_) : 0;
  mean_ = old * mean_ + (1 - old) * sample;
  any_ = true;
  last_ = now;
}

void AnswerTimes::note(Clock::duration took, Clock::time_point now) {
  blend(took, now);
  ++counts_[bucket_of(Seconds(took).count(), kBuckets)];
  if (++total_ < kRemembered) return;
  total_ = 0;
  for (std::uint32_t& count : counts_) total_ += count /= 2;
}

void AnswerTimes::note_refusal(Clock::time_point now) {
  mean_ = any_ ? std::max(mean_, kRefused) : kRefused;
  any_ = true;
  last_ = now;
}

std::optional<AnswerTimes::Seconds> AnswerTimes::mean() const {
  return any_ ? std::optional(mean_) : std::nullopt;
}

std::optional<AnswerTimes::Seconds> AnswerTimes::faded_mean(Clock::time_point now) const {
  return any_ ? std::optional(mean_ * share_left(now - last_)) : std::nullopt;
}

AnswerTimes::Clock::duration AnswerTimes::p99() const {
  if (total_ == 0) return {};
  std::uint32_t longer = 0;
  std::size_t at = kBuckets;
  while (at > 0 && (longer += counts_[at - 1]) * 100 <= total_) --at;
  const double seconds = kShortest * std::exp2(static_cast<double>(at - 1) / kBucketsOfADoubling);
  return std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

}  // namespace hopfeed
