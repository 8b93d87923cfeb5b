// Any bytes from the other end of a connection. The first byte says what they meet: a server's login or a
// client's, plain or under TLS, or one who is logged in and reads frames. Whatever they are, the connection
// ends, with an Error or in peace.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "tests/wire/wire_certificates.h"
#include "wire/connection.h"

namespace {

using namespace hopfeed;
using namespace hopfeed::wire;

struct Contexts {
  testing::Certificates certificates;
  std::shared_ptr<TlsContext> server = TlsContext::server(certificates.make({}));
  std::shared_ptr<TlsContext> client = TlsContext::client({.cert = {}, .key = {}, .ca = certificates.ca()});
};

asio::awaitable<void> log_in(Connection& connection, bool as_server) {
  co_await connection.shake_hands();
  const Offer offer;
  if (as_server)
    co_await login_as_server(connection, "", offer, std::chrono::milliseconds(0));
  else
    co_await login_as_client(connection, "", "fuzz");
}

asio::awaitable<void> read_frames(Connection& connection, std::uint16_t version) {
  connection.set_open({.version = version});
  while (true) {
    const FrameHeader header = co_await connection.read_header(std::chrono::milliseconds(0));
    if (header.type != FrameType::kBlock) {
      co_await connection.read_payload(header);
      continue;
    }
    std::array<std::byte, kBlockHeadBytes> head;
    co_await connection.read(head);
    from_bytes<BlockHead>(head);
    const std::uint64_t bytes = connection.block_bytes(header);
    if (bytes > (1 << 20)) co_return;  // more than was granted
    Bytes block(bytes);
    co_await connection.read_block(block);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Contexts contexts;
  if (size == 0) return 0;
  const int kind = data[0] % 8;
  const bool as_server = kind % 2 == 0, tls = kind / 2 == 1, logged_in = kind / 2 >= 2;
  const std::uint16_t version = kind / 2 == 2 ? 1 : 2;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  const OwnedFd other(fds[0]);
  // It fits into the socket's buffer: nobody waits.
  if (send(other.get(), data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && size > 1) std::abort();
  shutdown(other.get(), SHUT_WR);
  asio::io_context io;
  Socket socket(io);
  socket.assign({AF_UNIX, 0}, fds[1]);
  const ConnectionOptions options{.side = as_server ? Side::kServer : Side::kClient, .peer = "fuzz"};
  Connection connection(std::move(socket), tls ? (as_server ? contexts.server : contexts.client) : nullptr,
                        options);
  asio::co_spawn(io, logged_in ? read_frames(connection, version) : log_in(connection, as_server),
                 [&connection](const std::exception_ptr& error) {
                   connection.close();
                   try {
                     if (error) std::rethrow_exception(error);
                   } catch (const Error&) {
                   }
                 });
  io.run();
  return 0;
}
