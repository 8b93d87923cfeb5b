// A ProxyDirection is one direction of a connection through the proxy: what has come, what becomes of it, and
// what waits to be sent.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "tests/wire/proxy.h"

namespace hopfeed::testing {

struct ProxyCounts {
  std::int64_t replayed = 0, reordered = 0;
};

class ProxyDirection {
 public:
  using Clock = std::chrono::steady_clock;

  ProxyDirection(const PassingOn& rules, std::mt19937_64& random, ProxyCounts& counts)
      : rules_(rules), random_(random), counts_(counts) {}

  /// Takes bytes that have come, at `now`.
  void put(std::span<const std::byte> bytes, Clock::time_point now);
  /// Ends it: no more bytes come, and what is held back goes now.
  void end(Clock::time_point now);
  bool ended() const { return ended_; }
  /// Returns what may be sent at `now`; empty: nothing yet.
  std::span<const std::byte> ready(Clock::time_point now);
  void sent(std::size_t bytes);
  /// Returns when something of what waits may be sent; max: nothing waits.
  Clock::time_point next() const;
  std::size_t waiting() const { return waiting_; }
  bool empty() const { return out_.empty() && frame_.empty() && held_.empty(); }
  /// Returns whether so many bytes have been sent that the connection is to be cut.
  bool is_cut() const { return rules_.cut_after && passed_ >= *rules_.cut_after; }

 private:
  struct Chunk {
    std::vector<std::byte> bytes;
    Clock::time_point at;
  };
  using Bytes = std::vector<std::byte>;

  bool by_frames() const { return rules_.replay > 0 || rules_.reorder > 0; }
  bool chance(double of_one) { return std::uniform_real_distribution<>(0, 1)(random_) < of_one; }
  void frame_is_whole(Clock::time_point now);
  void pass(Bytes bytes, Clock::time_point now);

  const PassingOn rules_;
  std::mt19937_64& random_;
  ProxyCounts& counts_;
  Bytes frame_, held_;  // a frame that is coming, and one that waits for the next
  Clock::time_point held_until_{};
  std::deque<Chunk> out_;
  std::size_t at_ = 0;       // of the first chunk, what is sent
  std::size_t waiting_ = 0;  // bytes in out_
  std::uint64_t came_ = 0, passed_ = 0;
  bool ended_ = false;
  bool open_ = false;  // login is over: frames end with a checksum
};

}  // namespace hopfeed::testing
