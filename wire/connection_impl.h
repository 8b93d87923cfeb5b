// What a Connection is made of; for its own .cc files.
//
// Only one coroutine reads, and waits with the socket. Writing is no coroutine: pump() sends until the socket
// takes no more, and is called again when it does. There is one timer for all deadlines: it is set for the
// first of them, and looks anew when it fires; what moves later, as nearly all deadlines do, costs nothing.
#pragma once
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/buffer_pool.h"
#include "wire/connection.h"
#include "wire/frame_queue.h"
#include "wire/stream.h"

namespace hopfeed::wire {

using Clock = std::chrono::steady_clock;

/// How long the reader of a connection goes on while there is something to read. A block that another one
/// sends meanwhile takes several times as long for each of its pieces.
inline constexpr std::chrono::microseconds kTurn{50};

/// For those who speak no hopfeed (`first`: what they said): `text` as one line, for HTTP as an answer.
Bytes polite_line(std::span<const std::byte> first, const std::string& text);

/// Bytes that came with those that were asked for. Borrowed: none is held while a connection waits.
class ReadAhead {
 public:
  std::size_t size() const { return end_ - begin_; }
  /// Moves as many bytes to `to` as there are; returns how many.
  std::size_t take(std::span<std::byte> to);
  /// Where more can be put, once it is empty; filled() says how much was.
  std::span<std::byte> room();
  void filled(std::size_t bytes);
  void give_back_if_empty();

 private:
  PooledBuffer buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

struct Connection::Impl : std::enable_shared_from_this<Connection::Impl> {
  Impl(Socket connected, std::shared_ptr<TlsContext> tls, const std::string& host, ConnectionOptions given);

  // ---- its end
  /// Closes with a reason, which is thrown by whoever waits; the first one counts.
  void fail(const Error& error);
  void close(const std::string& why);
  /// Throws why it has ended.
  void require_open() const;
  /// An error of the other side, its name in front: "server X closed the connection".
  Error of_peer(const Error& error) const;
  Error in_frame(const Error& error) const;

  // ---- reading
  /// Reads some bytes of what is to come, at least one; `deadline` for waiting, `late` says what has not
  /// come by then.
  asio::awaitable<std::size_t> some(std::span<std::byte> to, Clock::time_point deadline, const char* late);
  /// Fills `to`, whatever part of a frame it is.
  asio::awaitable<void> fill(std::span<std::byte> to);
  /// Fills `to` from the payload; behind its last byte, its checksum is read too.
  asio::awaitable<void> all(std::span<std::byte> to);
  void begin_sum(const FrameHeader& header);
  asio::awaitable<void> check_sum();
  asio::awaitable<FrameHeader> header(std::chrono::milliseconds idle);
  asio::awaitable<void> block(std::span<std::byte> to);
  asio::awaitable<void> shake_hands();
  /// Whether it has read for so long that the others of this thread have to have their turn first.
  bool had_its_turn() const { return Clock::now() - turn_began > kTurn; }
  asio::awaitable<void> give_way();
  asio::awaitable<void> readable(Clock::time_point deadline, const char* late);
  Clock::time_point frame_end();

  // ---- writing
  void schedule_pump();
  void pump();
  void wait_until_writable();
  asio::awaitable<void> flush();
  asio::awaitable<void> finish();

  // ---- deadlines
  void arm(Clock::time_point deadline);
  void look_at_the_clock();

  Socket socket;
  ConnectionOptions options;
  std::shared_ptr<TlsContext> tls;
  std::unique_ptr<Stream> stream;
  Phase phase = Phase::kLogin;
  std::uint16_t version = 0;  // that is spoken; from login on
  Sums sums = Sums::kNone;
  bool closed = false;
  Error why_closed{ErrorCode::kPeerDied, ""};

  ReadAhead ahead;
  Clock::time_point turn_began = Clock::now();  // of the reader
  std::array<std::byte, kFrameHeaderBytes> header_bytes{};
  std::size_t header_size = 0;                   // of those that came of the header so far
  bool straight = false;                         // nothing is to be read ahead
  bool no_frames = false;                        // what came is no frame
  std::uint64_t login_bytes = 0;                 // that have come before the end of login
  std::uint64_t frame_bytes = 0;                 // of the frame that is being read
  std::optional<Clock::time_point> frame_began;  // when it was first waited for
  bool summing = false;                          // it ends with a checksum, which has not come
  std::uint32_t crc = 0;                         // of what has come of it
  std::uint64_t unsummed = 0;                    // bytes of its payload that have not
  FrameType summed_type{};

  FrameQueue queue;
  std::vector<Done> left;
  bool pumping = false, pump_scheduled = false, waiting_to_write = false;
  asio::steady_timer written;  // cancelled when all has left

  asio::steady_timer timer;
  Clock::time_point timer_at = Clock::time_point::max();
  Clock::time_point login_end;
  Clock::time_point read_deadline = Clock::time_point::max(), write_deadline = Clock::time_point::max();
  bool read_late = false;  // the reader's deadline has passed
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

}  // namespace hopfeed::wire
