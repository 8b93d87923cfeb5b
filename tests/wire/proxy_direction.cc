// See proxy_direction.h.
#include "tests/wire/proxy_direction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/messages.h"

namespace hopfeed::testing {
namespace {

constexpr std::chrono::milliseconds kHeldAtMost{20};  // a frame that no other follows

wire::FrameType type_of(std::span<const std::byte> frame) {
  std::uint16_t type = 0;
  std::memcpy(&type, frame.data() + 4, sizeof type);
  return static_cast<wire::FrameType>(type);
}

/// Bytes of the frame that `bytes` begins with; 0: that cannot be told yet. `open`: login is over.
std::uint64_t frame_bytes(std::span<const std::byte> bytes, bool open) {
  if (bytes.size() < wire::kFrameHeaderBytes) return 0;
  std::uint64_t payload = 0;
  std::memcpy(&payload, bytes.data() + 16, sizeof payload);
  const bool summed = open && wire::is_summed(type_of(bytes));
  return wire::kFrameHeaderBytes + payload + (summed ? wire::kChecksumBytes : 0);
}

bool of_login(std::span<const std::byte> frame) { return type_of(frame) <= wire::FrameType::kRefused; }

}  // namespace

void ProxyDirection::put(std::span<const std::byte> bytes, Clock::time_point now) {
  Bytes taken(bytes.begin(), bytes.end());
  if (rules_.flip_at && *rules_.flip_at >= came_ && *rules_.flip_at < came_ + taken.size())
    taken[*rules_.flip_at - came_] ^= std::byte{1};
  came_ += taken.size();
  if (!by_frames()) {
    pass(std::move(taken), now);
    return;
  }
  for (std::span<const std::byte> left = taken; !left.empty();) {
    const std::uint64_t whole = frame_bytes(frame_, open_);
    const std::uint64_t wanted = (whole == 0 ? wire::kFrameHeaderBytes : whole) - frame_.size();
    const auto part = left.first(std::min<std::uint64_t>(wanted, left.size()));
    frame_.insert(frame_.end(), part.begin(), part.end());
    left = left.subspan(part.size());
    if (frame_.size() == frame_bytes(frame_, open_)) frame_is_whole(now);
  }
}

void ProxyDirection::frame_is_whole(Clock::time_point now) {
  Bytes frame;
  frame.swap(frame_);
  const bool free = !of_login(frame);
  open_ = open_ || type_of(frame) == wire::FrameType::kLogin || type_of(frame) == wire::FrameType::kWelcome;
  const bool again = free && chance(rules_.replay);
  if (free && held_.empty() && chance(rules_.reorder)) {
    held_ = std::move(frame);
    held_until_ = now + kHeldAtMost;
    return;
  }
  if (again) {
    pass(frame, now);
    ++counts_.replayed;
  }
  pass(std::move(frame), now);
  if (held_.empty()) return;
  ++counts_.reordered;
  pass(std::exchange(held_, {}), now);
}

void ProxyDirection::pass(Bytes bytes, Clock::time_point now) {
  if (bytes.empty()) return;
  Clock::time_point at = now + rules_.delay;
  if (rules_.jitter.count() > 0)
    at += std::chrono::milliseconds(random_() % static_cast<std::uint64_t>(rules_.jitter.count() + 1));
  if (!out_.empty()) at = std::max(at, out_.back().at);
  waiting_ += bytes.size();
  out_.push_back({.bytes = std::move(bytes), .at = at});
}

void ProxyDirection::end(Clock::time_point now) {
  ended_ = true;
  pass(std::exchange(frame_, {}), now);
  pass(std::exchange(held_, {}), now);
}

std::span<const std::byte> ProxyDirection::ready(Clock::time_point now) {
  if (!held_.empty() && held_until_ <= now) pass(std::exchange(held_, {}), now);
  while (!out_.empty() && rules_.swallow_after && passed_ >= *rules_.swallow_after && out_.front().at <= now)
    sent(out_.front().bytes.size() - at_);
  if (out_.empty() || out_.front().at > now) return {};
  std::span<const std::byte> bytes = std::span<const std::byte>(out_.front().bytes).subspan(at_);
  if (rules_.most_at_once > 0) bytes = bytes.first(std::min(bytes.size(), rules_.most_at_once));
  for (const auto& limit : {rules_.cut_after, rules_.swallow_after})
    if (limit && *limit > passed_)
      bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), *limit - passed_));
  return bytes;
}

void ProxyDirection::sent(std::size_t bytes) {
  passed_ += bytes;
  waiting_ -= bytes;
  at_ += bytes;
  if (at_ < out_.front().bytes.size()) return;
  out_.pop_front();
  at_ = 0;
}

ProxyDirection::Clock::time_point ProxyDirection::next() const {
  Clock::time_point at = held_.empty() ? Clock::time_point::max() : held_until_;
  return out_.empty() ? at : std::min(at, out_.front().at);
}

}  // namespace hopfeed::testing
