// A raw client says exactly what a test wants, frame by frame: wire::Connection with a loop of its own that
// runs while the test waits.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "wire/connection.h"

namespace hopfeed {

class RawClient {
 public:
  struct Frame {
    wire::FrameHeader header;
    wire::Bytes payload;                  // of other frames than blocks
    wire::BlockHead head = {};            // of a block
    std::shared_ptr<AlignedBlock> block;  // its bytes
    BatchView batch() const { return BatchView(block->bytes()); }
    wire::FrameType type() const { return header.type; }
    wire::Refusal refusal() const { return wire::from_bytes<wire::Refusal>(payload); }
    std::uint64_t number() const { return wire::from_bytes<std::uint64_t>(payload); }
    std::string text() const { return wire::from_bytes<std::string>(payload); }
  };

  explicit RawClient(const wire::Address& address, std::shared_ptr<wire::TlsContext> tls = nullptr,
                     const std::string& token = "", const std::string& name = "raw") {
    connection_ = run(wire::Connection::connect(address, std::move(tls), std::chrono::seconds(10), {}));
    offer_ = run(wire::login_as_client(*connection_, token, name));
  }
  const wire::Offer& offer() const { return offer_; }
  wire::Connection& connection() { return *connection_; }

  void send(wire::FrameType type, std::uint64_t request, const wire::Bytes& payload = {}) {
    connection_->send(type, request, payload);
    run(connection_->flush());
  }
  /// Returns the next frame; pings are answered and not shown. Throws what the connection throws.
  Frame next() {
    for (;;) {
      Frame frame = run(read(*connection_));
      if (frame.type() != wire::FrameType::kPing) return frame;
      connection_->send(wire::FrameType::kPong, frame.header.request, frame.payload);
    }
  }
  Frame ask(wire::FrameType type, std::uint64_t request, const wire::Bytes& payload = {}) {
    send(type, request, payload);
    return next();
  }
  /// Sleeps: it reads nothing, and its own timers run.
  void sleep(std::chrono::milliseconds time) {
    loop_.restart();
    loop_.run_for(time);
  }

  template <class T>
  T run(wire::asio::awaitable<T> task) {
    std::future<T> done = wire::asio::co_spawn(loop_, std::move(task), wire::asio::use_future);
    loop_.restart();
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.run_one();
    return done.get();
  }

 private:
  static wire::asio::awaitable<Frame> read(wire::Connection& connection) {
    Frame frame;
    frame.header = co_await connection.read_header(std::chrono::seconds(60));
    if (frame.type() != wire::FrameType::kBlock) {
      frame.payload = co_await connection.read_payload(frame.header);
      co_return frame;
    }
    wire::Bytes head(wire::kBlockHeadBytes);
    co_await connection.read(head);
    frame.head = wire::from_bytes<wire::BlockHead>(head);
    frame.block = std::make_shared<AlignedBlock>(connection.block_bytes(frame.header));
    co_await connection.read_block(frame.block->bytes());
    co_return frame;
  }

  wire::asio::io_context loop_;
  std::unique_ptr<wire::Connection> connection_;
  wire::Offer offer_;
};

}  // namespace hopfeed
