// See stream.h: the socket itself.
#include <array>
#include <boost/asio/error.hpp>

#include "wire/stream.h"

namespace hopfeed::wire {
namespace {

namespace asio = boost::asio;

bool would_block(const boost::system::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again ||
         error == asio::error::interrupted;
}

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket& socket) : socket_(socket) {}

  std::size_t read_some(std::span<std::byte> first, std::span<std::byte> second) override {
    const std::array<asio::mutable_buffer, 2> both{asio::mutable_buffer(first.data(), first.size()),
                                                   asio::mutable_buffer(second.data(), second.size())};
    return read_socket(socket_, std::span(both).first(second.empty() ? 1 : 2));
  }
  std::size_t write_some(Pieces pieces) override { return write_socket(socket_, pieces); }
  bool flush() override { return true; }
  bool shake_hands() override { return true; }
  void say_goodbye() override {}

 private:
  Socket& socket_;
};

}  // namespace

std::unique_ptr<Stream> plain_stream(Socket& socket) { return std::make_unique<PlainStream>(socket); }

Error socket_failure(const boost::system::error_code& error) {
  if (error == asio::error::eof) return {ErrorCode::kPeerDied, "closed the connection"};
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe ||
      error == asio::error::connection_aborted)
    return {ErrorCode::kPeerDied, "broke the connection off"};
  if (error == asio::error::timed_out || error == asio::error::host_unreachable ||
      error == asio::error::network_unreachable || error == asio::error::network_down)
    return {ErrorCode::kPeerDied, "cannot be reached any more (" + error.message() + ")"};
  if (error == asio::error::no_buffer_space || error == asio::error::no_memory)
    return {ErrorCode::kNoSpace, "cannot be served: the operating system has no memory for it"};
  return {ErrorCode::kIo, "cannot be read or written: " + error.message()};
}

std::size_t read_socket(Socket& socket, std::span<const asio::mutable_buffer> to) {
  boost::system::error_code error;
  const std::size_t got = to.size() == 1 ? socket.read_some(to.front(), error) : socket.read_some(to, error);
  if (error && !would_block(error)) throw socket_failure(error);
  return error ? 0 : got;
}

std::size_t write_socket(Socket& socket, Pieces pieces) {
  boost::system::error_code error;
  const std::size_t put =
      pieces.size() == 1 ? socket.write_some(pieces.front(), error) : socket.write_some(pieces, error);
  if (error && !would_block(error)) throw socket_failure(error);
  return error ? 0 : put;
}

}  // namespace hopfeed::wire
