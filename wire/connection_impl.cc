// See connection_impl.h: a connection's life, its deadlines, and the calls that users see (connection.h).
// Reading is in connection_read.cc, writing in connection_write.cc.
#include "wire/connection_impl.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

namespace hopfeed::wire {
namespace {

void set_option(Socket& socket, int level, int name, int value) {
  // What the operating system refuses costs speed or patience, and nothing that is promised.
  [[maybe_unused]] const int ignored = setsockopt(socket.native_handle(), level, name, &value, sizeof value);
}

bool is_tcp(Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(socket.native_handle(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/// Small frames leave at once; who cannot be reached is found out, idle (probes) or not (unanswered bytes).
void set_tcp_options(Socket& socket) {
  constexpr int kProbe = 2;  // seconds between probes
  constexpr int kDead = static_cast<int>(kDeadPeer.count());
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kDead - 3 * kProbe);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbe);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 1'000 * kDead);
}

}  // namespace

Connection::Impl::Impl(Socket connected, std::shared_ptr<TlsContext> given_tls, const std::string& host,
                       ConnectionOptions given)
    : socket(std::move(connected)),
      options(std::move(given)),
      tls(std::move(given_tls)),
      written(socket.get_executor()),
      timer(socket.get_executor()),
      login_end(Clock::now() + options.login_deadline) {
  socket.non_blocking(true);
  if (is_tcp(socket)) set_tcp_options(socket);
  stream = tls ? tls_stream(socket, tls, host) : plain_stream(socket);
}

Error Connection::Impl::of_peer(const Error& error) const {
  return {error.code(), fmt::format("{} {}", options.peer, error.message())};
}

Error Connection::Impl::in_frame(const Error& error) const {
  return {error.code(), fmt::format("{}: {}", options.peer, error.message())};
}

void Connection::Impl::require_open() const {
  if (closed) throw why_closed;
}

void Connection::Impl::fail(const Error& error) {
  if (closed) return;
  closed = true;
  why_closed = error;
  stream->say_goodbye();
  boost::system::error_code ignored;
  socket.close(ignored);  // ends the waits for it
  timer.cancel();
  written.cancel();
  std::vector<Done> dropped = std::move(left);
  left.clear();
  queue.drop(dropped);
  for (Done& done : dropped)
    if (done) done(false);
}

void Connection::Impl::close(const std::string& why) {
  fail(Error(ErrorCode::kPeerDied, fmt::format("{} {}", options.peer, why)));
}

// ---- deadlines

void Connection::Impl::arm(Clock::time_point deadline) {
  if (closed || deadline >= timer_at) return;
  timer_at = deadline;
  timer.expires_at(deadline);  // cancels an earlier wait
  timer.async_wait([self = shared_from_this(), deadline](const boost::system::error_code& error) {
    if (!error && self->timer_at == deadline) self->look_at_the_clock();
  });
}

void Connection::Impl::look_at_the_clock() {
  timer_at = Clock::time_point::max();
  if (closed) return;
  const Clock::time_point now = Clock::now();
  if (write_deadline <= now) {
    fail({ErrorCode::kTimeout,
          fmt::format("{} has taken nothing for {} ms", options.peer, options.frame_deadline.count())});
    return;
  }
  if (read_deadline <= now) {
    read_late = true;  // the reader says what is late; it waits until it is woken
    read_deadline = Clock::time_point::max();
    boost::system::error_code ignored;
    socket.cancel(ignored);
  }
  arm(std::min(read_deadline, write_deadline));
}

// ---- what users see

Connection::Connection(Socket socket, std::shared_ptr<TlsContext> tls, ConnectionOptions options)
    : impl_(std::make_shared<Impl>(std::move(socket), std::move(tls), "", std::move(options))) {}
Connection::Connection(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() { impl_->close("is left"); }

asio::awaitable<void> Connection::shake_hands() { return impl_->shake_hands(); }
asio::awaitable<FrameHeader> Connection::read_header(std::chrono::milliseconds idle) {
  return impl_->header(idle);
}
asio::awaitable<void> Connection::give_way() { return impl_->give_way(); }
asio::awaitable<void> Connection::read(std::span<std::byte> to) { return impl_->all(to); }
asio::awaitable<void> Connection::read_block(std::span<std::byte> to) { return impl_->block(to); }
std::uint64_t Connection::block_bytes(const FrameHeader& header) const {
  return wire::block_bytes(header, impl_->sums);
}
asio::awaitable<void> Connection::flush() { return impl_->flush(); }
asio::awaitable<void> Connection::finish() { return impl_->finish(); }

void Connection::send(FrameType type, std::uint64_t request, std::span<const std::byte> payload) {
  if (impl_->closed) return;
  impl_->queue.add(type, request, payload);
  impl_->schedule_pump();
}

void Connection::send(FrameType type, std::uint64_t request, std::shared_ptr<const Bytes> payload) {
  if (impl_->closed) return;
  const std::span<const std::byte> bytes(*payload);
  impl_->queue.add(type, request, bytes, std::move(payload));
  impl_->schedule_pump();
}

void Connection::send(FrameType type, std::uint64_t request, std::span<const std::byte> payload,
                      std::shared_ptr<const void> owner) {
  if (impl_->closed) return;
  impl_->queue.add(type, request, payload, std::move(owner));
  impl_->schedule_pump();
}

void Connection::send_refusal(FrameType type, std::uint64_t request, const Error& error) {
  send(type, request, to_bytes(Refusal{.code = error.code(), .text = error.message()}));
}

void Connection::send_block(std::uint64_t request, const BlockHead& head, std::span<const std::byte> block,
                            std::function<void(bool sent)> done) {
  if (impl_->closed) {
    if (done) done(false);
    return;
  }
  impl_->queue.add_block(request, head, block, std::move(done));
  impl_->schedule_pump();
}

std::size_t Connection::queued() const { return impl_->queue.bytes(); }
std::size_t Connection::queued_frames() const { return impl_->queue.frame_bytes(); }

void Connection::set_open(const Spoken& spoken) {
  impl_->phase = Phase::kOpen;
  impl_->version = spoken.version;
  impl_->sums = encrypted()           ? Sums::kNone
                : spoken.version >= 2 ? Sums::kFrames
                : spoken.checksums    ? Sums::kBlocks
                                      : Sums::kNone;
  impl_->queue.set_sums(impl_->sums);
  impl_->frame_began.reset();
}
void Connection::set_peer(std::string peer) { impl_->options.peer = std::move(peer); }
const std::string& Connection::peer() const { return impl_->options.peer; }
std::uint16_t Connection::newest_version() const { return impl_->options.newest_version; }
std::uint16_t Connection::version() const { return impl_->version; }
bool Connection::encrypted() const { return impl_->tls != nullptr; }
void Connection::close() { impl_->close("is left"); }
bool Connection::closed() const { return impl_->closed; }
std::string Connection::why_closed() const { return impl_->closed ? impl_->why_closed.what() : ""; }
std::uint64_t Connection::bytes_in() const { return impl_->bytes_in; }
std::uint64_t Connection::bytes_out() const { return impl_->bytes_out; }

}  // namespace hopfeed::wire
