// Signs of life: who says nothing for long is sent PING, and who gives no sign for longer is left. Both sides
// of a connection look for them; whoever owns it asks now and then.
#pragma once
#include <chrono>
#include <cstdint>

#include "wire/connection.h"

namespace hopfeed::wire {

/// Who says nothing for kPingAfter is sent PING; who gives no sign of life for kDeadAfter is left.
inline constexpr std::chrono::milliseconds kPingAfter{3'000}, kDeadAfter{10'000};
/// A client that was stopped for longer has not looked, which is no sign of the server's death.
inline constexpr std::chrono::milliseconds kAsleep{2'000};

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;
  /// `side`: this one. A client sends PING each kPingAfter. A server sends it at each look, where nothing is
  /// queued before it; what its system takes of a long block is a sign of life too.
  Heartbeat(Side side, Clock::time_point now)
      : side_(side), heard_(now), alive_(now), pinged_(now), looked_(now) {}

  /// Returns false where the other side has to be left.
  bool look(Connection& connection, Clock::time_point now);
  /// This side reads nothing meanwhile, so silence tells nothing.
  void set_deaf(bool deaf) { deaf_ = deaf, alive_ = Clock::now(); }

 private:
  Side side_;
  bool deaf_ = false;
  std::uint64_t in_ = 0, all_ = 0;  // bytes, when it last looked
  Clock::time_point heard_, alive_, pinged_, looked_;
};

/// Answers PING. Returns whether the frame is one, or PONG, after which nothing is to be done.
bool take_heartbeat(Connection& connection, const FrameHeader& header, const Bytes& payload);

}  // namespace hopfeed::wire
