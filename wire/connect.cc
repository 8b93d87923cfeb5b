// See connection.h: resolving a name and connecting.
#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "core/base/error.h"
#include "wire/connection_impl.h"

namespace hopfeed::wire {
namespace {

using Endpoint = asio::generic::stream_protocol::endpoint;
using boost::system::error_code;

/// Runs `end` at the deadline, unless it ends before.
class Deadline {
 public:
  template <class End>
  Deadline(const asio::any_io_executor& executor, Clock::time_point at, End end)
      : timer_(executor), passed_(std::make_shared<bool>(false)) {
    timer_.expires_at(at);
    timer_.async_wait([passed = passed_, end](const error_code& error) {
      if (error) return;
      *passed = true;
      end();
    });
  }
  bool passed() const { return *passed_; }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<bool> passed_;
};

std::string late(const std::string& peer, std::chrono::milliseconds limit) {
  return fmt::format("{} does not answer within {} ms; is it running, and is no firewall between?", peer,
                     limit.count());
}

asio::awaitable<std::vector<Endpoint>> resolve(Address address, std::string peer, Clock::time_point end,
                                               std::chrono::milliseconds limit) {
  std::vector<Endpoint> endpoints;
  if (address.is_unix()) {
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(address.path));
    co_return endpoints;
  }
  error_code no_number;
  const asio::ip::address number = asio::ip::make_address(address.host, no_number);
  if (!no_number) {
    endpoints.emplace_back(asio::ip::tcp::endpoint(number, address.port));
    co_return endpoints;
  }
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const Deadline deadline(executor, end, [&resolver] { resolver.cancel(); });
  error_code error;
  asio::ip::tcp::resolver::results_type found;
  try {
    found = co_await resolver.async_resolve(address.host, std::to_string(address.port),
                                            asio::redirect_error(asio::use_awaitable, error));
  } catch (const boost::system::system_error& failed) {  // it has a thread of its own
    throw_errno(fmt::format("{}: cannot start a thread that looks '{}' up", peer, address.host),
                failed.code().value());
  }
  if (deadline.passed()) throw Error(ErrorCode::kTimeout, late(peer, limit));
  if (error)
    // Name servers and containers come up in any order, as servers do: it may be known in a moment.
    throw Error(ErrorCode::kPeerDied, fmt::format("{}: the host '{}' is not known here ({}); check the name",
                                                  peer, address.host, error.message()));
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  co_return endpoints;
}

Error refused(const Address& address, const std::string& peer, const error_code& error) {
  if (error == asio::error::connection_refused)
    return {ErrorCode::kPeerDied,
            fmt::format("{} refuses connections; is hopfeed-server running there?", peer)};
  if (address.is_unix() && error == boost::system::errc::no_such_file_or_directory)
    return {ErrorCode::kPeerDied,
            fmt::format("{}: there is no such socket file; is hopfeed-server running?", peer)};
  if (error == boost::system::errc::permission_denied)
    return {ErrorCode::kIo, fmt::format("{} may not be connected to by this user", peer)};
  if (error == asio::error::no_descriptors)
    return {ErrorCode::kIo, fmt::format("{}: this process has too many files open (ulimit -n)", peer)};
  return {ErrorCode::kPeerDied, fmt::format("{} cannot be reached: {}", peer, error.message())};
}

asio::awaitable<Socket> connected(Address address, std::string peer, Clock::time_point end,
                                  std::chrono::milliseconds limit) {
  const auto executor = co_await asio::this_coro::executor;
  const std::vector<Endpoint> endpoints = co_await resolve(address, peer, end, limit);
  error_code error = asio::error::host_not_found;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    Socket socket(executor);
    // Each in turn, so that one that nobody answers at leaves time for the others.
    const Clock::time_point now = Clock::now();
    const Deadline deadline(executor, now + (end - now) / static_cast<int>(endpoints.size() - i),
                            [&socket] { socket.close(); });
    co_await socket.async_connect(endpoints[i], asio::redirect_error(asio::use_awaitable, error));
    if (!error && socket.is_open()) co_return socket;
    if (deadline.passed()) error = asio::error::timed_out;
  }
  if (error == asio::error::timed_out && Clock::now() >= end)
    throw Error(ErrorCode::kTimeout, late(peer, limit));
  throw refused(address, peer, error);
}

}  // namespace

asio::awaitable<std::unique_ptr<Connection>> Connection::connect(const Address& address,
                                                                 std::shared_ptr<TlsContext> tls,
                                                                 std::chrono::milliseconds deadline,
                                                                 ConnectionOptions options) {
  return [](Address address, std::shared_ptr<TlsContext> tls, std::chrono::milliseconds limit,
            ConnectionOptions options) -> asio::awaitable<std::unique_ptr<Connection>> {
    if (options.peer.empty()) options.peer = fmt::format("server {}", address.to_text());
    const Clock::time_point end = Clock::now() + limit;
    Socket socket = co_await connected(address, options.peer, end, limit);
    const std::chrono::milliseconds login = options.login_deadline;
    const auto impl =
        std::make_shared<Impl>(std::move(socket), std::move(tls), address.host, std::move(options));
    std::unique_ptr<Connection> connection(new Connection(impl));
    impl->login_end = end;
    co_await impl->shake_hands();
    impl->login_end = Clock::now() + login;
    co_return connection;
  }(address, std::move(tls), deadline, std::move(options));
}

}  // namespace hopfeed::wire
