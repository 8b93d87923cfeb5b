// Where a server waits for connections: a port, or a socket file that only its user may open.
#pragma once
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>

#include "wire/address.h"

namespace hopfeed::wire {

class Listener {
 public:
  /// Throws kIo where the address is in use or this user may not have it, kInvalid where this machine has no
  /// such, kNotFound where its name is unknown or the socket file's folder is missing; each names it. The
  /// socket file of a server that has died is replaced: one that refuses connections, and no other.
  Listener(const boost::asio::any_io_executor& executor, const Address& address);
  /// Removes the socket file.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// With the port that it got.
  const Address& address() const { return address_; }
  /// The next connection. Where files or memory are short (EMFILE) it waits and tries again, and pauses()
  /// grows: connections then queue in the operating system. Throws kIo, and kPeerDied once it is closed.
  boost::asio::awaitable<boost::asio::generic::stream_protocol::socket> accept();
  std::uint64_t pauses() const { return pauses_; }
  /// No more connections.
  void close();

 private:
  using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;
  void listen_on_file();
  void listen_on_port();

  Address address_;
  Acceptor acceptor_;
  std::uint64_t pauses_ = 0;
  dev_t device_ = 0;  // of the socket file, so that only our own is removed
  ino_t inode_ = 0;
};

/// The number of whom a socket is connected to, for messages: "10.0.0.2:51234", "a local process".
std::string peer_of(boost::asio::generic::stream_protocol::socket& socket);

/// From where it comes, for counting: its IPv4 address, or the /64 of its IPv6 address; "" for a local
/// process.
std::string network_of(boost::asio::generic::stream_protocol::socket& socket);
std::string network_of(const boost::asio::ip::address& from);

}  // namespace hopfeed::wire
