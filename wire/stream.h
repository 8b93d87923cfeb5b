// Bytes over a connected socket that never blocks, plain or under TLS. A Connection waits for it and knows
// what the bytes mean.
//
// Errors are those of the other side, as the end of a sentence that begins with its name: "closed the
// connection".
#pragma once
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/error.h"
#include "wire/security.h"

namespace hopfeed::wire {

using Socket = boost::asio::generic::stream_protocol::socket;
using Pieces = std::span<const boost::asio::const_buffer>;

class Stream {
 public:
  virtual ~Stream() = default;
  /// What is there, into `first` and what is left into `second`. 0: nothing; wait until the socket can be
  /// read. Throws kPeerDied at its end.
  virtual std::size_t read_some(std::span<std::byte> first, std::span<std::byte> second) = 0;
  /// Takes some of the pieces, in order; they may change from then on. 0: wait until the socket can be
  /// written.
  virtual std::size_t write_some(Pieces pieces) = 0;
  /// Sends what was taken, or what TLS itself has to say. False: wait until the socket can be written.
  virtual bool flush() = 0;
  /// Shakes hands. False: wait until the socket can be read.
  virtual bool shake_hands() = 0;
  /// Says, where that can be said, that nothing more comes.
  virtual void say_goodbye() = 0;
};

/// `socket` outlives it.
std::unique_ptr<Stream> plain_stream(Socket& socket);
/// `host`: whom a client typed; empty: nobody in particular.
std::unique_ptr<Stream> tls_stream(Socket& socket, std::shared_ptr<TlsContext> context,
                                   const std::string& host);

/// What a socket's error says, as a stream throws it.
Error socket_failure(const boost::system::error_code& error);
/// A read or write of a socket that never blocks: 0 where it would have. Throws socket_failure().
std::size_t read_socket(Socket& socket, std::span<const boost::asio::mutable_buffer> to);
std::size_t write_socket(Socket& socket, Pieces pieces);

/// The other side speaks no TLS: these are its first bytes.
class NoTls : public Error {
 public:
  NoTls(const std::string& message, std::span<const std::byte> first)
      : Error(ErrorCode::kInvalid, message), first_(first.begin(), first.end()) {}
  const Bytes& first() const { return first_; }

 private:
  Bytes first_;
};

}  // namespace hopfeed::wire
