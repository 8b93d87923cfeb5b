// See connection.h: writing, and how a connection ends politely.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/base/limits.h"
#include "core/base/plain_text.h"
#include "wire/connection_impl.h"

namespace hopfeed::wire {
namespace {

constexpr std::size_t kWrittenWithoutPause = 1 << 20;  // then the others of this thread have their turn
constexpr std::chrono::seconds kFarewell{1};
constexpr std::size_t kHeardOut = 1 << 20;  // bytes of one who goes on talking after the farewell

}  // namespace

Bytes polite_line(std::span<const std::byte> first, const std::string& text) {
  const std::string line = as_line(text, kMaxSmallBytes) + "\r\n";
  if (looks_like(first) != "an HTTP request") return to_bytes(std::string_view(line));
  return to_bytes(std::string_view(
      fmt::format("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: "
                  "close\r\n\r\n{}",
                  line.size(), line)));
}

void Connection::Impl::schedule_pump() {
  // Posted, so that what else is sent in this turn leaves with it.
  if (closed || pump_scheduled || pumping || waiting_to_write) return;
  pump_scheduled = true;
  asio::post(socket.get_executor(), [self = shared_from_this()] {
    self->pump_scheduled = false;
    self->pump();
  });
}

void Connection::Impl::pump() {
  if (closed || pumping || waiting_to_write) return;
  pumping = true;
  std::optional<Error> failure;
  std::size_t put_in_all = 0;
  bool blocked = false;
  try {
    while (!closed && !blocked && put_in_all < kWrittenWithoutPause) {
      if (queue.empty()) {
        blocked = !stream->flush();
        if (!blocked) write_deadline = Clock::time_point::max();
        break;
      }
      const std::size_t put = stream->write_some(queue.next());
      blocked = put == 0;
      if (put == 0) break;
      put_in_all += put;
      bytes_out += put;
      write_deadline = Clock::time_point::max();
      queue.sent(put, left);
      // One of them may send more, or close.
      std::vector<Done> now;
      now.swap(left);
      for (Done& done : now)
        if (done) done(true);
    }
  } catch (const Error& error) {
    failure = of_peer(error);
  }
  pumping = false;
  if (closed) return;
  if (failure)
    fail(*failure);
  else if (blocked)
    wait_until_writable();
  else if (!queue.empty())
    schedule_pump();
  else
    written.cancel();
}

void Connection::Impl::wait_until_writable() {
  waiting_to_write = true;
  if (write_deadline == Clock::time_point::max()) {
    write_deadline = Clock::now() + options.frame_deadline;
    arm(write_deadline);
  }
  socket.async_wait(Socket::wait_write, [self = shared_from_this()](const boost::system::error_code&) {
    // Whatever ended the wait: if it is closed pump() does nothing, else it tries.
    self->waiting_to_write = false;
    self->pump();
  });
}

asio::awaitable<void> Connection::Impl::flush() {
  const auto self = shared_from_this();
  while (!closed && (!queue.empty() || pump_scheduled || waiting_to_write)) {
    boost::system::error_code ignored;
    written.expires_at(Clock::time_point::max());  // the writer's deadline ends it
    co_await written.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<void> Connection::Impl::finish() {
  const auto self = shared_from_this();
  co_await flush();
  if (closed) co_return;
  stream->say_goodbye();
  boost::system::error_code ignored;
  socket.shutdown(Socket::shutdown_send, ignored);
  // Unread bytes would make the operating system break off, and what was just said would be lost.
  const Clock::time_point end = Clock::now() + kFarewell;
  std::array<std::byte, 1024> unread;
  const asio::mutable_buffer buffer(unread.data(), unread.size());
  try {
    for (std::size_t heard = 0; heard < kHeardOut && Clock::now() < end;) {
      boost::system::error_code error;
      const std::size_t got = socket.read_some(buffer, error);
      heard += got;
      if (error == asio::error::would_block)
        co_await readable(end, "did not listen");
      else if (error)
        break;
    }
  } catch (const Error&) {  // it had its second
  }
  close("is left");
}

asio::awaitable<void> Connection::refuse(const Error& why) {
  return [](std::shared_ptr<Impl> self, Error why) -> asio::awaitable<void> {
    if (self->no_frames) {
      const auto first = std::span<const std::byte>(self->header_bytes).first(self->header_size);
      self->queue.add_raw(polite_line(first, why.what()));
    } else {
      self->queue.add(FrameType::kRefused, 0, to_bytes(Refusal{.code = why.code(), .text = why.message()}));
    }
    self->schedule_pump();
    co_await self->finish();
  }(impl_, why);
}

}  // namespace hopfeed::wire
