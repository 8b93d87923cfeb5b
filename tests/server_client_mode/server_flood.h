// A flood is a client that sends one kind of frame without a pause and reads what it is answered, on a thread
// of its own.
#pragma once
#include <atomic>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <string>
#include <thread>
#include <utility>

#include "tests/server_client_mode/server_raw_client.h"

namespace hopfeed {

struct FloodOptions {
  std::string name = "flood";
  wire::FrameType type{};
  wire::Bytes payload = {};
};

class Flood {
 public:
  Flood(wire::Address address, FloodOptions options)
      : address_(std::move(address)), options_(std::move(options)), thread_([this] { run(); }) {}
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  /// Returns the frames that have left.
  std::uint64_t sent() const { return sent_; }

 private:
  static constexpr std::size_t kInFlight = 256 << 10;  // bytes that wait to be sent

  void run() {
    try {
      RawClient client(address_, nullptr, "", options_.name);
      client.run(send(client.connection()));
    } catch (const Error&) {  // the server has ended
    }
  }
  wire::asio::awaitable<void> send(wire::Connection& connection) {
    co_spawn(co_await wire::asio::this_coro::executor, read(connection), wire::asio::detached);
    for (std::uint64_t number = 0; !stop_ && !connection.closed();) {
      std::uint64_t frames = 0;
      for (; connection.queued() < kInFlight; ++frames)
        connection.send(options_.type, ++number, options_.payload);
      co_await connection.flush();
      sent_ += frames;
    }
    connection.close();
  }
  static wire::asio::awaitable<void> read(wire::Connection& connection) {
    try {
      for (;;) {
        const wire::FrameHeader header = co_await connection.read_header(std::chrono::milliseconds(0));
        co_await connection.read_payload(header);
      }
    } catch (const Error&) {
    }
  }

  const wire::Address address_;
  const FloodOptions options_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> sent_{0};
  std::thread thread_;
};

}  // namespace hopfeed
