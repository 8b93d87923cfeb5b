// See flood.h.
#include "bench/server_client_mode/flood.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cmath>
#include <exception>

#include "bench/measure.h"
#include "wire/connection.h"

namespace hopfeed::bench {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using wire::FrameType;

constexpr std::size_t kInFlight = 256 << 10;  // bytes that wait to be sent

asio::awaitable<void> read_all(wire::Connection& connection) {
  try {
    for (;;) co_await connection.read_payload(co_await connection.read_header(0ms));
  } catch (const Error&) {  // it is over
  }
}

asio::awaitable<void> flood(wire::Address address, FloodKind kind, const std::atomic<bool>& stop,
                            std::atomic<std::uint64_t>& frames) {
  wire::ConnectionOptions options;
  const auto connection = co_await wire::Connection::connect(address, nullptr, 10s, options);
  co_await wire::login_as_client(*connection, "", "flood");
  co_spawn(co_await asio::this_coro::executor, read_all(*connection), asio::detached);
  for (std::uint64_t number = 0; !stop && !connection->closed();) {
    const std::uint64_t before = number;
    while (connection->queued() < kInFlight) connection->send(kind.type, ++number, kind.payload);
    co_await connection->flush();
    frames += number - before;
  }
  connection->close();
}

}  // namespace

std::vector<FloodKind> flood_kinds(const std::string& fingerprint) {
  wire::Open refused;
  refused.job = 1;
  refused.spec.fingerprint = fingerprint;
  refused.spec.batch.fanouts.assign(250'000, 1);
  return {{.name = "ping", .type = FrameType::kPing, .payload = wire::Bytes(16)},
          {.name = "cancel", .type = FrameType::kCancel},
          {.name = "close_job", .type = FrameType::kCloseJob, .payload = wire::to_bytes(std::uint64_t{7})},
          {.name = "status", .type = FrameType::kGetStatus},
          {.name = "refused_open", .type = FrameType::kOpen, .payload = wire::to_bytes(refused)}};
}

Flood::Flood(const wire::Address& address, const FloodKind& kind)
    : thread_([this, address, kind] {
        asio::io_context loop(1);
        // What it throws ends it: then no frames leave, which the report shows.
        asio::co_spawn(loop, flood(address, kind, stop_, frames_), [](const std::exception_ptr&) {});
        loop.run();
      }) {}

Flood::~Flood() {
  stop_ = true;
  thread_.join();
}

Burner::Burner(double cores) {
  const int threads = std::max(1, static_cast<int>(std::ceil(cores)));
  const double share = std::max(0.0, cores) / threads;
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this, share] {
      const double begin = now(), cpu = thread_cpu_seconds();
      while (!stop_) {
        if (thread_cpu_seconds() - cpu >= share * (now() - begin)) std::this_thread::sleep_for(1ms);
      }
    });
}

Burner::~Burner() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace hopfeed::bench
