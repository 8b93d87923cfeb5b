// A stream of frames over TCP or a unix socket, plain or under TLS, for one side. One strand (in hopfeed: one
// thread) owns it; one coroutine reads while another writes.
//
// Reading is buffered: many small frames come with one system call, and a large payload goes straight to
// where it belongs. Writing gathers: what is queued while a write is under way leaves together. Under TLS
// OpenSSL is driven over the socket with buffers of 128 KiB and more, borrowed from a pool, and decrypts
// straight into the place of the payload: Asio's own stream reads one record of 16 KiB at a time.
//
// Every wait has a deadline. What goes wrong is thrown as Error naming the other side: kPeerDied where it is
// gone, kTimeout, kCorrupt, kIo; also by calls that are waiting when close() is called (kPeerDied).
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "wire/address.h"
#include "wire/frame.h"
#include "wire/messages.h"
#include "wire/security.h"

namespace hopfeed::wire {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;

/// The other side is seen to be gone after this long without being reached, whether bytes are under way or
/// not.
inline constexpr std::chrono::seconds kDeadPeer{10};

/// How long a server keeps who has shown a wrong proof, so that nobody tries tokens by the thousand.
inline constexpr std::chrono::milliseconds kAfterWrongProof{1'000};

/// In a coroutine, give it a name before the call: g++ 12 destroys an aggregate twice that is made within a
/// co_await expression.
struct ConnectionOptions {
  Side side = Side::kClient;  // this side
  std::string peer = {};      // for messages: "server 10.0.0.1:9470", "client trainer-3"
  std::chrono::milliseconds login_deadline{5'000};  // for all of login, shaking hands included
  /// From a frame's first byte to its last (large ones get a second more for each MiB), and a write without
  /// progress.
  std::chrono::milliseconds frame_deadline{30'000};
  /// The highest version that it speaks.
  std::uint16_t newest_version = kProtocolVersion;
};

/// What login has agreed on.
struct Spoken {
  std::uint16_t version = kProtocolVersion;
  bool checksums = true;  // that the server offers (Offer)
};

class Connection {
 public:
  /// Takes a connected socket. `tls` null: plain.
  Connection(Socket socket, std::shared_ptr<TlsContext> tls, ConnectionOptions options);
  ~Connection();

  /// Resolves, connects and, with `tls`, shakes hands (the server's certificate is checked against
  /// `address.host`). An empty `options.peer` becomes "server ADDRESS".
  static asio::awaitable<std::unique_ptr<Connection>> connect(const Address& address,
                                                              std::shared_ptr<TlsContext> tls,
                                                              std::chrono::milliseconds deadline,
                                                              ConnectionOptions options);
  /// Ends the handshake of an accepted socket with `tls`; done at once without.
  asio::awaitable<void> shake_hands();

  // ---- reading, by one coroutine. Of a frame that ends with a checksum, the call that reads its last byte
  // (read_header() where it has no payload) reads that too, and throws kCorrupt where it is another.
  /// The next frame's header, checked for this side and phase; waits `idle` at most for its first byte (zero:
  /// for ever). Where that passes kTimeout is thrown, and the connection stays: it may be called again.
  asio::awaitable<FrameHeader> read_header(std::chrono::milliseconds idle = {});
  /// The others of this thread have their turn before it goes on. read_header(), read() and read_block() see
  /// to that by themselves where much comes in; this is for who was answered, and may ask again at once.
  asio::awaitable<void> give_way();
  /// Exactly that many bytes of the payload.
  asio::awaitable<void> read(std::span<std::byte> to);
  /// Reads so many and forgets them.
  asio::awaitable<void> skip(std::uint64_t bytes);
  /// The rest of a small payload (max_payload of its type holds).
  asio::awaitable<Bytes> read_payload(const FrameHeader& header);
  /// A block, straight into `to`, in chunks that stay in the cache until they are summed; then the checksum
  /// that follows. Throws kCorrupt.
  asio::awaitable<void> read_block(std::span<std::byte> to);
  /// Bytes of the block in a kBlock frame. Throws kCorrupt where the frame is too short for its other parts.
  std::uint64_t block_bytes(const FrameHeader& header) const;

  // ---- writing: queued in order, by the owning thread; nothing blocks
  /// A small frame. Copies the payload.
  void send(FrameType type, std::uint64_t request, std::span<const std::byte> payload = {});
  /// Sends a frame without a copy: it keeps its share of `payload` until that has left.
  void send(FrameType type, std::uint64_t request, std::shared_ptr<const Bytes> payload);
  /// Sends a frame of any bytes without a copy: `owner` is kept until they have left.
  void send(FrameType type, std::uint64_t request, std::span<const std::byte> payload,
            std::shared_ptr<const void> owner);
  /// Sends kRefused or kFailed.
  void send_refusal(FrameType type, std::uint64_t request, const Error& error);
  /// A kBlock frame. `block` is read in place until `done(sent)` is called by the owning thread: exactly
  /// once, also where the connection ends first (false); on one that has ended already, within this call. A
  /// small block is copied at once.
  void send_block(std::uint64_t request, const BlockHead& head, std::span<const std::byte> block,
                  std::function<void(bool sent)> done);
  /// Bytes that are queued.
  std::size_t queued() const;
  /// Bytes that are queued and belong to no block.
  std::size_t queued_frames() const;
  /// Waits until all that was queued has left, or the connection has ended.
  asio::awaitable<void> flush();

  /// Ends it politely: sends what is queued, says that nothing more comes, and waits a second at most until
  /// the other side has read it. Throws nothing.
  asio::awaitable<void> finish();
  /// Tells the other side, in its own tongue, why it is refused, and finishes: kRefused with request 0, or a
  /// line of text where what it sent is no frame.
  asio::awaitable<void> refuse(const Error& why);

  /// After login: frames of Phase::kOpen are expected from here on, and, without TLS and from version 2 on,
  /// end with a checksum both ways.
  void set_open(const Spoken& spoken);
  /// For messages, once login has told it.
  void set_peer(std::string peer);
  const std::string& peer() const;
  bool encrypted() const;
  std::uint16_t newest_version() const;
  /// The version that login has agreed on.
  std::uint16_t version() const;
  /// Ends it, with what waits on it; any number of times.
  void close();
  bool closed() const;
  /// Why it ended, once it has.
  std::string why_closed() const;

  std::uint64_t bytes_in() const, bytes_out() const;

 private:
  struct Impl;
  explicit Connection(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// Login, seen from a client: HELLO, CHALLENGE, LOGIN, WELCOME; then set_open(). Throws what the server
/// refused, kInvalid where the server could not prove that it knows the token, kVersion where no common
/// version is.
asio::awaitable<Offer> login_as_client(Connection& connection, const std::string& token,
                                       const std::string& name, std::string_view token_field = "token_file");
/// Login, seen from a server; returns the client's name. Refuses by kRefused (after a fixed delay for a
/// wrong proof, whatever was wrong with it), and throws the same.
asio::awaitable<std::string> login_as_server(Connection& connection, const std::string& token,
                                             const Offer& offer,
                                             std::chrono::milliseconds after_wrong_proof = kAfterWrongProof);

}  // namespace hopfeed::wire
