// See listen.h.
#include "wire/listen.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace hopfeed::wire {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kBacklog = 512;
constexpr std::chrono::milliseconds kPause{100};

Error in_use(const Address& address) {
  return {ErrorCode::kIo,
          address.is_unix()
              ? fmt::format("{} is in use: a server listens there; end it, or give another path",
                            address.to_text())
              : fmt::format(
                    "{} is in use: another program listens there ('ss -ltnp' shows which); end it, or give "
                    "another port",
                    address.to_text())};
}

/// What connecting to a socket file gives: 0, or an errno.
int try_connect(const std::string& path) {
  const OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/// Removes what a dead server has left there: a socket that refuses connections. Any other is somebody's.
void remove_stale(const Address& address) {
  struct stat status {};
  if (lstat(address.path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode))
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("{}: there is something that is no socket; give another path", address.to_text()));
  const int error = try_connect(address.path);
  if (error == 0 || error == EAGAIN) throw in_use(address);  // EAGAIN: the queue of one that is alive is full
  if (error == EPROTOTYPE)
    throw Error(ErrorCode::kIo,
                fmt::format("{} is in use: another program has a socket of another kind there; end it, or "
                            "give another path",
                            address.to_text()));
  if (error == EACCES || error == EPERM)
    throw Error(ErrorCode::kIo,
                fmt::format("{} is the socket of another user, who may use it; give another path",
                            address.to_text()));
  if (error == ENOENT) return;  // gone meanwhile
  if (error != ECONNREFUSED)
    throw_errno(fmt::format("{}: cannot see whether a server listens there", address.to_text()), error);
  if (unlink(address.path.c_str()) != 0 && errno != ENOENT)
    throw_errno(fmt::format("{}: the socket file of a dead server cannot be removed", address.to_text()),
                errno);
}

}  // namespace

Listener::Listener(const asio::any_io_executor& executor, const Address& address)
    : address_(address), acceptor_(executor) {
  if (address_.is_unix())
    listen_on_file();
  else
    listen_on_port();
  error_code error;
  acceptor_.listen(kBacklog, error);
  if (error == asio::error::address_in_use) throw in_use(address_);
  if (error) throw_errno(fmt::format("cannot listen on {}", address_.to_text()), error.value());
}

void Listener::listen_on_file() {
  remove_stale(address_);
  acceptor_.open({AF_UNIX, 0});
  // The file gets the socket's mode, so that there is no moment at which others may open it.
  if (fchmod(acceptor_.native_handle(), S_IRUSR | S_IWUSR) != 0)
    throw_errno(fmt::format("cannot listen on {}", address_.to_text()), errno);
  error_code error;
  acceptor_.bind(asio::local::stream_protocol::endpoint(address_.path), error);
  if (error == asio::error::address_in_use) throw in_use(address_);
  if (error) throw_errno(fmt::format("cannot make the socket file {}", address_.to_text()), error.value());
  struct stat status {};
  if (chmod(address_.path.c_str(), S_IRUSR | S_IWUSR) != 0 || stat(address_.path.c_str(), &status) != 0)
    throw_errno(fmt::format("cannot make the socket file {}", address_.to_text()), errno);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void Listener::listen_on_port() {
  error_code error;
  asio::ip::tcp::resolver resolver(acceptor_.get_executor());
  const auto found =
      resolver.resolve(address_.host, std::to_string(address_.port), asio::ip::tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: the host '{}' is not known here; give a number or a name of this "
                            "machine",
                            address_.to_text(), address_.host));
  const asio::ip::tcp::endpoint endpoint = *found.begin();
  acceptor_.open({endpoint.protocol().family(), IPPROTO_TCP});
  acceptor_.set_option(asio::socket_base::reuse_address(true));  // of a server that has just ended
  acceptor_.bind(endpoint, error);
  if (error == asio::error::address_in_use) throw in_use(address_);
  if (error == boost::system::errc::address_not_available)
    throw Error(ErrorCode::kInvalid,
                fmt::format("this machine has no address {} ('ip address' shows those that it has)",
                            address_.to_text()));
  if (error == boost::system::errc::permission_denied)
    throw Error(ErrorCode::kIo,
                fmt::format("this user may not listen on {}; give a port from 1024 on", address_.to_text()));
  if (error) throw_errno(fmt::format("cannot listen on {}", address_.to_text()), error.value());
  const asio::generic::stream_protocol::endpoint got = acceptor_.local_endpoint();
  asio::ip::tcp::endpoint port;
  port.resize(got.size());
  std::memcpy(port.data(), got.data(), got.size());
  address_.port = port.port();
}

Listener::~Listener() {
  close();
  struct stat status {};
  if (inode_ != 0 && lstat(address_.path.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_)
    unlink(address_.path.c_str());
}

void Listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
}

asio::awaitable<asio::generic::stream_protocol::socket> Listener::accept() {
  while (true) {
    error_code error;
    auto socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_return socket;
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor)
      throw Error(ErrorCode::kPeerDied, fmt::format("{} is closed", address_.to_text()));
    const bool gone_again = error == asio::error::connection_aborted ||
                            error == boost::system::errc::protocol_error || error == asio::error::interrupted;
    if (gone_again) continue;
    if (error != asio::error::no_descriptors && error != boost::system::errc::too_many_files_open_in_system &&
        error != asio::error::no_buffer_space && error != asio::error::no_memory)
      throw_errno(fmt::format("cannot accept connections on {}", address_.to_text()), error.value());
    ++pauses_;
    asio::steady_timer pause(acceptor_.get_executor(), kPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

namespace {

/// Nothing for a socket file.
std::optional<asio::ip::tcp::endpoint> number_of(asio::generic::stream_protocol::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  const int family = endpoint.protocol().family();
  if (error || (family != AF_INET && family != AF_INET6)) return {};
  asio::ip::tcp::endpoint number;
  number.resize(endpoint.size());
  std::memcpy(number.data(), endpoint.data(), endpoint.size());
  return number;
}

}  // namespace

std::string peer_of(asio::generic::stream_protocol::socket& socket) {
  const auto number = number_of(socket);
  if (!number) return "a local process";
  return Address{.host = number->address().to_string(), .port = number->port(), .path = {}}.to_text();
}

std::string network_of(asio::generic::stream_protocol::socket& socket) {
  const auto number = number_of(socket);
  return number ? network_of(number->address()) : "";
}

std::string network_of(const asio::ip::address& from) {
  if (from.is_v4()) return from.to_string();
  const asio::ip::address_v6 address = from.to_v6();
  // One that listens for both sees IPv4 as ::ffff:a.b.c.d.
  if (address.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, address).to_string();
  return asio::ip::network_v6(address, 64).canonical().to_string();
}

}  // namespace hopfeed::wire
