// Tests of the wire share this: coroutines that run to their end, and two connections that are connected to
// each other.
#pragma once
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "tests/wire/wire_certificates.h"
#include "wire/connection.h"
#include "wire/listen.h"

namespace hopfeed::testing {

namespace asio = boost::asio;
using namespace std::chrono_literals;

template <class T>
struct Outcome {
  std::optional<std::conditional_t<std::is_void_v<T>, std::monostate, T>> value;
  std::exception_ptr error;

  /// Returns what the coroutine gave; throws what it threw.
  T get() {
    if (error) std::rethrow_exception(error);
    if constexpr (!std::is_void_v<T>) return std::move(value.value());
  }
  /// Returns the message of what the coroutine threw, or "".
  std::string what() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  }
  std::optional<ErrorCode> code() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& thrown) {
      return thrown.code();
    }
    return std::nullopt;
  }
};

/// A Loop runs coroutines of one thread.
class Loop {
 public:
  asio::io_context io;

  template <class T>
  std::shared_ptr<Outcome<T>> start(asio::awaitable<T> body) {
    auto outcome = std::make_shared<Outcome<T>>();
    ++running_;
    if constexpr (std::is_void_v<T>) {
      asio::co_spawn(io, std::move(body), [this, outcome](std::exception_ptr error) {
        outcome->error = error;
        if (!error) outcome->value.emplace();
        --running_;
      });
    } else {
      asio::co_spawn(io, std::move(body), [this, outcome](std::exception_ptr error, T value) {
        outcome->error = error;
        if (!error) outcome->value.emplace(std::move(value));
        --running_;
      });
    }
    return outcome;
  }
  /// Runs until all that were started have ended.
  void run() {
    io.restart();
    while (running_ > 0 && io.run_one() > 0) {
    }
  }
  template <class T>
  T now(asio::awaitable<T> body) {
    const auto outcome = start(std::move(body));
    run();
    return outcome->get();
  }
  /// Runs what else is ready, without waiting.
  void poll() {
    io.restart();
    io.poll();
  }

 private:
  int running_ = 0;
};

inline asio::awaitable<void> pause(std::chrono::milliseconds duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

enum class Transport { kTcp, kUnix, kTls, kOlder };  // kOlder: TCP, and a server that speaks version 1

inline std::string name_of(Transport transport) {
  switch (transport) {
    case Transport::kTcp:
      return "tcp";
    case Transport::kUnix:
      return "unix";
    case Transport::kTls:
      return "tls";
    default:
      return "older";
  }
}

/// A WirePair is a server's end and a client's, not yet logged in.
struct WirePair {
  std::unique_ptr<wire::Connection> server, client;
};

struct PairOptions {
  Transport transport = Transport::kTcp;
  wire::ConnectionOptions server{.side = wire::Side::kServer, .peer = "client"};
  wire::ConnectionOptions client{.side = wire::Side::kClient};
};

class WireFixture {
 public:
  Loop loop;

  wire::Address address_for(Transport transport) {
    if (transport == Transport::kUnix)
      return {.host = {}, .port = 0, .path = folder_.path() / ("s" + std::to_string(files_++))};
    return {.host = "127.0.0.1", .port = 0, .path = {}};
  }
  Certificates& certificates() {
    if (!certificates_) {
      certificates_.emplace();
      certificates_->make({});
    }
    return *certificates_;
  }
  std::shared_ptr<wire::TlsContext> server_tls() {
    return wire::TlsContext::server(certificates().files("server"));
  }
  std::shared_ptr<wire::TlsContext> client_tls() {
    return wire::TlsContext::client({.cert = {}, .key = {}, .ca = certificates().ca()});
  }
  WirePair connect(const PairOptions& options = {}) {
    const bool tls = options.transport == Transport::kTls;
    wire::ConnectionOptions server_options = options.server;
    if (options.transport == Transport::kOlder) server_options.newest_version = 1;
    wire::Listener listener(loop.io.get_executor(), address_for(options.transport));
    const auto client = loop.start(
        wire::Connection::connect(listener.address(), tls ? client_tls() : nullptr, 10s, options.client));
    const auto server = loop.start(accept(listener, tls ? server_tls() : nullptr, server_options));
    loop.run();
    WirePair pair;
    pair.server = server->get();
    pair.client = client->get();
    return pair;
  }
  /// Returns two ends of a connection that is logged in.
  WirePair open(const PairOptions& options = {}, const wire::Offer& offer = {}) {
    WirePair pair = connect(options);
    const auto server = loop.start(wire::login_as_server(*pair.server, "", offer));
    const auto client = loop.start(wire::login_as_client(*pair.client, "", "test"));
    loop.run();
    server->get();
    client->get();
    return pair;
  }
  static asio::awaitable<std::unique_ptr<wire::Connection>> accept(wire::Listener& listener,
                                                                   std::shared_ptr<wire::TlsContext> tls,
                                                                   wire::ConnectionOptions options) {
    wire::Socket socket = co_await listener.accept();
    auto connection = std::make_unique<wire::Connection>(std::move(socket), std::move(tls), options);
    co_await connection->shake_hands();
    co_return connection;
  }
  std::string folder() const { return folder_.path().string(); }

 private:
  TempFolder folder_;
  int files_ = 0;
  std::optional<Certificates> certificates_;
};

inline wire::Bytes bytes_of(std::string_view text) { return wire::to_bytes(text); }

/// Returns so many bytes that look random.
inline wire::Bytes noise(std::size_t size, std::uint64_t seed = 1) {
  wire::Bytes bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(seed >> 56);
  }
  return bytes;
}

}  // namespace hopfeed::testing
