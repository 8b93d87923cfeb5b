// A scripted server is a server of one thread for tests of the client: it speaks the protocol and makes each
// batch as the oracle does, unless a script has something else in mind for it. So it can do all that a broken
// or hostile server could.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/maker/batch_source.h"
#include "wire/connection.h"

namespace hopfeed {

class ScriptedServer {
 public:
  using Block = std::shared_ptr<std::vector<std::byte>>;
  /// A Turn is one BATCH that has come.
  struct Turn {
    ScriptedServer& server;
    wire::Connection& connection;
    std::uint64_t request = 0;
    wire::BatchAsked asked;
    Block block;     // the right one
    int number = 0;  // of BATCHes so far, over all connections
    /// Sends a block that is kept as long as it takes, whatever it is.
    void send(const Block& what) const;
    void send(wire::FrameType type, const wire::Bytes& payload = {}) const;
  };
  struct Options {
    std::string dataset;
    std::string token = "a-token-of-the-tests";
    wire::Offer offer = {};                                 // datasets are filled in
    std::uint16_t port = 0;                                 // of 127.0.0.1; 0: any
    std::uint16_t newest_version = wire::kProtocolVersion;  // that it speaks
    /// Returns true where it has seen to the batch; else the server answers rightly.
    std::function<bool(const Turn&)> script = nullptr;
    /// OPENED says so many positions, where it is not to say the truth; 0: the truth.
    std::int64_t num_seeds = 0;
    /// It refuses the n-th OPEN (from 0) where it gives an error.
    std::function<std::optional<Error>(int opens)> refuse_open = nullptr;
  };

  explicit ScriptedServer(Options options);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  wire::Address address() const { return address_; }
  /// Tells all clients that it is about to leave.
  void drain();
  /// Closes all connections and accepts none until resume().
  void vanish();
  void resume();

  int batches() const { return batches_; }          // BATCHes that came
  int cancels() const { return cancels_; }          // CANCELs
  int uploads() const { return uploads_; }          // SEEDS
  int connections() const { return connections_; }  // connections that logged in

 private:
  struct Session;
  wire::asio::awaitable<void> accept();
  wire::asio::awaitable<void> serve(wire::Socket socket);
  wire::asio::awaitable<void> answer(std::shared_ptr<Session> session);
  void on_open(Session& session, const wire::FrameHeader& header, const wire::Bytes& payload);
  void on_batch(Session& session, const wire::FrameHeader& header, const wire::Bytes& payload);
  void send_block(wire::Connection& connection, std::uint64_t request, const Block& block);
  void post_and_wait(const std::function<void()>& what);

  const Options options_;
  const Dataset dataset_;
  wire::asio::io_context context_{1};
  struct Listening;
  std::unique_ptr<Listening> listening_;
  wire::Address address_;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::map<std::string, wire::Bytes> seeds_;  // by SHA-256
  std::atomic<int> batches_{0}, cancels_{0}, uploads_{0}, connections_{0};
  int opens_ = 0;
  bool gone_ = false;
  std::thread thread_;
};

}  // namespace hopfeed
