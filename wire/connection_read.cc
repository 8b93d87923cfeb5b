// See connection.h: reading.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "wire/connection_impl.h"
#include "wire/crc32c.h"

namespace hopfeed::wire {
namespace {

constexpr std::size_t kReadAtOnce = 1 << 20;        // of a block
constexpr std::size_t kSummedWhenRead = 512 << 10;  // of a block, while it is in the second cache
constexpr std::uint64_t kSkippedAtOnce = 64 << 10;
constexpr std::size_t kFirstOfPayload = 1 << 20;      // memory for a payload before any of it has come
constexpr std::uint64_t kSlowestPerSecond = 1 << 20;  // bytes of a large frame
constexpr Clock::time_point kNever = Clock::time_point::max();  // the frame's own deadline counts
constexpr Clock::time_point kForEver = kNever - std::chrono::seconds(1);
constexpr const char* kLateLogin = "did not log in in time";
constexpr const char* kLateFrame = "stopped in the middle of a frame";
constexpr const char* kLateIdle = "has said nothing in time";

}  // namespace

// ---- bytes that came early

std::size_t ReadAhead::take(std::span<std::byte> to) {
  const std::size_t bytes = std::min(to.size(), size());
  if (bytes == 0) return 0;
  std::memcpy(to.data(), buffer_.bytes().data() + begin_, bytes);
  begin_ += bytes;
  return bytes;
}

std::span<std::byte> ReadAhead::room() {
  if (!buffer_) buffer_ = PooledBuffer::borrow();
  begin_ = end_ = 0;
  return buffer_.bytes();
}

void ReadAhead::filled(std::size_t bytes) {
  begin_ = 0;
  end_ = bytes;
}

void ReadAhead::give_back_if_empty() {
  if (size() == 0) buffer_.give_back();
}

// ---- waiting

asio::awaitable<void> Connection::Impl::give_way() {
  const auto self = shared_from_this();
  co_await asio::post(socket.get_executor(), asio::use_awaitable);
  turn_began = Clock::now();
  require_open();
}

asio::awaitable<void> Connection::Impl::readable(Clock::time_point deadline, const char* late) {
  const auto self = shared_from_this();
  require_open();
  read_late = false;
  read_deadline = deadline;
  if (deadline < kForEver) arm(deadline);
  ahead.give_back_if_empty();
  boost::system::error_code ignored;  // of a wait that was ended, by the clock, close() or the writer's
  co_await socket.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, ignored));
  turn_began = Clock::now();
  read_deadline = kNever;
  require_open();
  if (read_late) {
    read_late = false;
    throw of_peer({ErrorCode::kTimeout, late});
  }
}

asio::awaitable<std::size_t> Connection::Impl::some(std::span<std::byte> to, Clock::time_point deadline,
                                                    const char* late) {
  const auto self = shared_from_this();
  if (const std::size_t taken = ahead.take(to); taken > 0) co_return taken;
  while (true) {
    require_open();
    if (had_its_turn()) co_await give_way();
    std::optional<Error> failure;
    std::size_t got = 0;
    try {
      // Before login nothing is read that was not asked for, and no memory taken.
      got = stream->read_some(to, phase == Phase::kOpen && !straight ? ahead.room() : std::span<std::byte>());
    } catch (const Error& error) {
      failure = of_peer(error);
    }
    if (failure) {
      fail(*failure);
      throw why_closed;
    }
    if (got > 0) {
      bytes_in += got;
      const std::size_t asked = std::min(got, to.size());
      ahead.filled(got - asked);
      co_return asked;
    }
    co_await readable(deadline == kNever ? frame_end() : deadline, late);
  }
}

Clock::time_point Connection::Impl::frame_end() {
  if (phase == Phase::kLogin) return login_end;
  if (!frame_began) frame_began = Clock::now();
  return *frame_began + options.frame_deadline + std::chrono::seconds(frame_bytes / kSlowestPerSecond);
}

asio::awaitable<void> Connection::Impl::fill(std::span<std::byte> to) {
  const auto self = shared_from_this();
  std::optional<Error> failure;
  try {
    while (!to.empty()) {
      const std::size_t got = co_await some(to, kNever, phase == Phase::kLogin ? kLateLogin : kLateFrame);
      if (summing) crc = crc32c(crc, to.first(got));
      to = to.subspan(got);
    }
    co_return;
  } catch (const Error& error) {
    failure = error;
  }
  fail(*failure);  // a frame that has not come whole is followed by none
  throw *failure;
}

asio::awaitable<void> Connection::Impl::all(std::span<std::byte> to) {
  const auto self = shared_from_this();
  const std::size_t there = ahead.take(to);
  if (summing) crc = crc32c(crc, to.first(there));
  if (there < to.size()) co_await fill(to.subspan(there));
  if (!summing) co_return;
  unsummed -= std::min<std::uint64_t>(unsummed, to.size());
  if (unsummed == 0) co_await check_sum();
}

// ---- checksums of frames

void Connection::Impl::begin_sum(const FrameHeader& header) {
  summed_type = header.type;
  summing = sums == Sums::kFrames && is_summed(header.type);
  if (!summing) return;
  crc = crc32c(0, header_bytes);
  unsummed = header.bytes;
}

asio::awaitable<void> Connection::Impl::check_sum() {
  const auto self = shared_from_this();
  summing = false;
  std::uint32_t told = 0;
  const auto tail = std::as_writable_bytes(std::span(&told, 1));
  const std::size_t there = ahead.take(tail);
  if (there < tail.size()) co_await fill(tail.subspan(there));
  if (told != crc)
    throw in_frame({ErrorCode::kCorrupt,
                    fmt::format("a {} frame came with other bytes than were sent: its crc32c is {:08x}, and "
                                "{:08x} was told; look at the network between",
                                name_of(summed_type), crc, told)});
}

// ---- frames

asio::awaitable<FrameHeader> Connection::Impl::header(std::chrono::milliseconds idle) {
  const auto self = shared_from_this();
  frame_began.reset();
  frame_bytes = 0;
  // Frames that were read ahead come without a look at the socket.
  if (ahead.size() > 0 && had_its_turn()) co_await give_way();
  header_bytes.fill(std::byte{});
  header_size = ahead.take(header_bytes);
  while (header_size < kFrameHeaderBytes) {
    const auto to = std::span(header_bytes).subspan(header_size);
    if (phase == Phase::kLogin || header_size > 0) {
      // A first byte is already there, or login's own deadline counts.
      std::optional<Error> failure;
      try {
        header_size += co_await some(to, kNever, phase == Phase::kLogin ? kLateLogin : kLateFrame);
      } catch (const Error& error) {
        failure = error;
      }
      if (failure) {
        fail(*failure);
        throw *failure;
      }
    } else {
      const Clock::time_point deadline = idle.count() > 0 ? Clock::now() + idle : kForEver;
      header_size += co_await some(to, deadline, kLateIdle);
    }
    // Seen at the first wrong byte: what is no frame may be shorter than a header.
    no_frames =
        std::memcmp(&kFrameMagic, header_bytes.data(), std::min(header_size, sizeof kFrameMagic)) != 0;
    if (no_frames) break;
  }
  FrameHeader parsed;
  try {
    const FrameHeader read = wire::read_header(header_bytes, options.side, phase);
    if (phase == Phase::kLogin && options.side == Side::kServer) {
      login_bytes += kFrameHeaderBytes + read.bytes;
      require_valid(login_bytes <= kMaxLoginBytes,
                    fmt::format("more than {} bytes came before the end of login", kMaxLoginBytes));
    }
    frame_bytes = read.bytes;
    begin_sum(read);
    parsed = read;
  } catch (const Error& error) {
    throw in_frame(error);
  }
  if (summing && unsummed == 0) co_await check_sum();
  co_return parsed;
}

asio::awaitable<Bytes> Connection::read_payload(const FrameHeader& header) {
  return [](std::shared_ptr<Impl> self, FrameHeader header) -> asio::awaitable<Bytes> {
    // Memory follows the bytes: a header alone takes none that is worth telling.
    Bytes payload;
    while (payload.size() < header.bytes) {
      const std::size_t had = payload.size();
      payload.resize(std::min<std::uint64_t>(header.bytes, std::max(kFirstOfPayload, 2 * had)));
      co_await self->all(std::span(payload).subspan(had));
    }
    co_return payload;
  }(impl_, header);
}

asio::awaitable<void> Connection::skip(std::uint64_t bytes) {
  return [](std::shared_ptr<Impl> self, std::uint64_t bytes) -> asio::awaitable<void> {
    Bytes unused(std::min(bytes, kSkippedAtOnce));
    for (; bytes > 0; bytes -= unused.size()) {
      unused.resize(std::min<std::uint64_t>(bytes, unused.size()));
      co_await self->all(unused);
    }
  }(impl_, bytes);
}

asio::awaitable<void> Connection::Impl::block(std::span<std::byte> to) {
  const auto self = shared_from_this();
  if (sums == Sums::kBlocks) {  // the same checksum, of the block alone
    summing = true;
    crc = 0;
    unsummed = to.size();
  }
  while (!to.empty()) {
    const auto chunk = to.first(std::min(to.size(), summing ? kSummedWhenRead : kReadAtOnce));
    straight = chunk.size() < to.size();  // what follows is the block's, and no frame to read ahead
    co_await all(chunk);
    to = to.subspan(chunk.size());
  }
}

asio::awaitable<void> Connection::Impl::shake_hands() {
  const auto self = shared_from_this();
  std::optional<Error> failure;
  Bytes first;
  try {
    while (!stream->shake_hands()) co_await readable(login_end, "did not shake hands in time");
    if (!stream->flush()) schedule_pump();
    co_return;
  } catch (const NoTls& error) {
    failure = of_peer(error);
    first = error.first();
  } catch (const Error& error) {
    failure = closed ? why_closed : of_peer(error);
  }
  if (!closed && options.side == Side::kServer) {
    if (!first.empty()) {
      // Told in plain bytes, which is what it understands.
      stream = plain_stream(socket);
      std::copy(first.begin(), first.end(), header_bytes.begin());
      header_size = first.size();
      no_frames = true;
      const std::string text =
          fmt::format("this server speaks TLS; give {} to connect to it", marked("tls_ca"));
      const bool is_hopfeed =
          first.front() == std::byte{'H'} && (first.size() < 2 || first[1] == std::byte{'P'});
      if (is_hopfeed)
        queue.add(FrameType::kRefused, 0, to_bytes(Refusal{.code = ErrorCode::kInvalid, .text = text}));
      else
        queue.add_raw(polite_line(first, unmarked(text)));
      schedule_pump();
    }
    co_await finish();
  }
  fail(*failure);
  throw *failure;
}

}  // namespace hopfeed::wire
