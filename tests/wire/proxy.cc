// See proxy.h: one thread that polls all of its sockets.
#include "tests/wire/proxy.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "tests/wire/proxy_direction.h"

namespace hopfeed::testing {
namespace {

using Clock = ProxyDirection::Clock;

constexpr std::size_t kMostWaiting = 4 << 20;  // bytes; then who sends them waits too

OwnedFd connect_to(const wire::Address& target) {
  if (target.is_unix()) {
    OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "no socket");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    target.path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
    return fd;
  }
  const addrinfo hints{.ai_flags = 0, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &found) != 0) return {};
  OwnedFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), "no socket");
  const bool connected = connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  return connected ? std::move(fd) : OwnedFd();
}

void set_up(const OwnedFd& fd) {
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Closing it resets the connection.
void reset_at_end(const OwnedFd& fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

struct Way {
  ProxyDirection bytes;
  bool frozen = false, told_end = false;
};

struct Link {
  OwnedFd client, server;
  Way up, down;  // to the server, to the client
  bool over = false;
};

}  // namespace

struct Proxy::Impl {
  Impl(const wire::Address& given_target, const ProxyOptions& given)
      : target(given_target), options(given), random(given.seed) {
    listener = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "no socket");
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    auto* const raw = reinterpret_cast<sockaddr*>(&any);
    if (bind(listener.get(), raw, size) != 0 || listen(listener.get(), 512) != 0 ||
        getsockname(listener.get(), raw, &size) != 0)
      throw_errno("the proxy cannot listen", errno);
    port = ntohs(any.sin_port);
    wake = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "no eventfd");
    thread = std::thread([this] { run(); });
  }
  ~Impl() {
    tell([this] { done = true; });
    thread.join();
  }

  /// Has the thread call it, and waits until it has.
  void tell(const std::function<void()>& call) {
    std::unique_lock lock(mutex);
    asked.push_back(call);
    const std::uint64_t ticket = ++last_asked, one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake.get(), &one, sizeof one);
    answered_changed.wait(lock, [&] { return answered >= ticket; });
  }
  void answer() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = read(wake.get(), &count, sizeof count);
    const std::lock_guard lock(mutex);
    for (const auto& call : asked) call();
    answered += asked.size();
    asked.clear();
    answered_changed.notify_all();
  }

  void run() {
    std::vector<std::byte> buffer(256 << 10);
    while (!done) {
      const Clock::time_point now = Clock::now();
      const bool stalled = now < stalled_until;
      std::vector<pollfd> fds{{wake.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
      Clock::time_point next = stalled ? stalled_until : Clock::time_point::max();
      for (Link& link : links) {
        short of_client = 0, of_server = 0;
        if (!stalled) {
          note(link.up, of_client, of_server, now, next);
          note(link.down, of_server, of_client, now, next);
        }
        // No event: -1, or a hang-up would wake us again and again.
        fds.push_back({of_client != 0 ? link.client.get() : -1, of_client, 0});
        fds.push_back({of_server != 0 ? link.server.get() : -1, of_server, 0});
      }
      poll(fds.data(), fds.size(), milliseconds_until(next, now));
      answer();
      if (Clock::now() >= stalled_until) {
        std::size_t at = 2;
        for (Link& link : links) {
          if (at + 1 >= fds.size()) break;
          pass(link, fds[at], fds[at + 1], buffer);
          at += 2;
        }
      }
      links.remove_if([](const Link& link) { return link.over; });
      open = static_cast<std::int64_t>(links.size());
      if (fds[1].revents != 0) accept_one();
    }
    links.clear();
  }

  static int milliseconds_until(Clock::time_point next, Clock::time_point now) {
    if (next == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 10'000));
  }
  /// What a direction waits for: of its source, and of its sink.
  static void note(Way& way, short& of_source, short& of_sink, Clock::time_point now,
                   Clock::time_point& next) {
    if (!way.bytes.ended() && way.bytes.waiting() < kMostWaiting) of_source |= POLLIN;
    if (way.frozen || way.told_end) return;
    if (!way.bytes.ready(now).empty() || (way.bytes.ended() && way.bytes.empty()))
      of_sink |= POLLOUT;
    else
      next = std::min(next, way.bytes.next());
  }

  void pass(Link& link, const pollfd& client, const pollfd& server, std::vector<std::byte>& buffer) {
    const Clock::time_point now = Clock::now();
    take(link, link.up, link.client, client, now, buffer);
    take(link, link.down, link.server, server, now, buffer);
    give(link, link.up, link.server, server, now, up_bytes);
    give(link, link.down, link.client, client, now, down_bytes);
    if (link.up.told_end && link.down.told_end) link.over = true;
    if (link.up.bytes.is_cut() || link.down.bytes.is_cut()) cut(link);
  }
  void take(Link& link, Way& way, const OwnedFd& from, const pollfd& polled, Clock::time_point now,
            std::vector<std::byte>& buffer) {
    if ((polled.revents & (POLLIN | POLLHUP | POLLERR)) == 0 || way.bytes.ended()) return;
    const ssize_t got = recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0)
      way.bytes.put({buffer.data(), static_cast<std::size_t>(got)}, now);
    else if (got == 0)
      way.bytes.end(now);
    else
      cut(link);
  }
  static void give(Link& link, Way& way, const OwnedFd& to, const pollfd& polled, Clock::time_point now,
                   std::atomic<std::uint64_t>& count) {
    if (link.over || way.frozen || way.told_end || (polled.revents & (POLLOUT | POLLHUP | POLLERR)) == 0)
      return;
    // Single bytes are many segments: a few for each turn.
    for (int writes = 0; writes < 64; ++writes) {
      const auto bytes = way.bytes.ready(now);
      if (bytes.empty() || way.bytes.is_cut()) break;
      const ssize_t put = send(to.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (put < 0) {
        link.over = true;
        return;
      }
      count += static_cast<std::uint64_t>(put);
      way.bytes.sent(static_cast<std::size_t>(put));
    }
    if (way.bytes.ended() && way.bytes.empty()) {
      shutdown(to.get(), SHUT_WR);
      way.told_end = true;
    }
  }
  void cut(Link& link) {
    if (random() % 2 == 0) {
      reset_at_end(link.client);
      reset_at_end(link.server);
    }
    link.over = true;
  }
  static PassingOn moved(PassingOn rules, std::int64_t connections_before) {
    const std::uint64_t by = rules.later * static_cast<std::uint64_t>(connections_before);
    if (rules.cut_after) *rules.cut_after += by;
    if (rules.flip_at) *rules.flip_at += by;
    return rules;
  }
  void accept_one() {
    OwnedFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) return;
    const std::int64_t before = connections++;
    OwnedFd server = refusing ? OwnedFd() : connect_to(target);
    if (!server) return;
    set_up(client);
    set_up(server);
    links.push_back({.client = std::move(client),
                     .server = std::move(server),
                     .up = {.bytes = {moved(options.to_server, before), random, counts}},
                     .down = {.bytes = {moved(options.to_client, before), random, counts}}});
    open = static_cast<std::int64_t>(links.size());
  }

  const wire::Address target;
  ProxyOptions options;
  std::mt19937_64 random;
  OwnedFd listener, wake;
  std::uint16_t port = 0;
  ProxyCounts counts;
  std::list<Link> links;
  Clock::time_point stalled_until{};
  bool done = false, refusing = false;
  std::atomic<std::int64_t> connections{0}, open{0};
  std::atomic<std::uint64_t> up_bytes{0}, down_bytes{0};
  std::mutex mutex;
  std::condition_variable answered_changed;
  std::vector<std::function<void()>> asked;
  std::uint64_t last_asked = 0, answered = 0;
  std::thread thread;
};

Proxy::Proxy(const wire::Address& target, const ProxyOptions& options)
    : impl_(std::make_unique<Impl>(target, options)) {}
Proxy::~Proxy() = default;

wire::Address Proxy::address() const { return {.host = "127.0.0.1", .port = impl_->port, .path = {}}; }

void Proxy::set(const PassingOn& to_server, const PassingOn& to_client) {
  impl_->tell([&] {
    impl_->options.to_server = to_server;
    impl_->options.to_client = to_client;
  });
}
void Proxy::cut() {
  impl_->tell([&] {
    for (Link& link : impl_->links) impl_->cut(link);
  });
}
void Proxy::stall(std::chrono::milliseconds duration) {
  impl_->tell([&] { impl_->stalled_until = Clock::now() + duration; });
}
void Proxy::freeze_to_client() {
  impl_->tell([&] {
    for (Link& link : impl_->links) link.down.frozen = true;
  });
}
void Proxy::freeze_to_server() {
  impl_->tell([&] {
    for (Link& link : impl_->links) link.up.frozen = true;
  });
}
void Proxy::half_close_to_client() {
  impl_->tell([&] {
    for (Link& link : impl_->links) link.down.bytes.end(Clock::now());
  });
}
void Proxy::half_close_to_server() {
  impl_->tell([&] {
    for (Link& link : impl_->links) link.up.bytes.end(Clock::now());
  });
}
void Proxy::refuse(bool all) {
  impl_->tell([&] { impl_->refusing = all; });
}

std::int64_t Proxy::connections() const { return impl_->connections; }
std::int64_t Proxy::open_connections() const { return impl_->open; }
std::uint64_t Proxy::bytes_to_server() const { return impl_->up_bytes; }
std::uint64_t Proxy::bytes_to_client() const { return impl_->down_bytes; }
std::int64_t Proxy::replayed() const {
  std::int64_t count = 0;
  impl_->tell([&] { count = impl_->counts.replayed; });
  return count;
}
std::int64_t Proxy::reordered() const {
  std::int64_t count = 0;
  impl_->tell([&] { count = impl_->counts.reordered; });
  return count;
}

}  // namespace hopfeed::testing
