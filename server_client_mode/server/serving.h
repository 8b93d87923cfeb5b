// Serving is a server at work: what it opened, whom it serves, and the loop that does so. The constructor and
// what says "any thread" may be called by any; all else belongs to the thread that is in run().
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server_client_mode/server/lost_partitions.h"
#include "server_client_mode/server/metrics_http.h"
#include "server_client_mode/server/server_context.h"
#include "server_client_mode/server/server_status.h"
#include "server_client_mode/server/session.h"
#include "server_client_mode/server/strangers.h"
#include "server_client_mode/server/thread_pool.h"
#include "wire/listen.h"

namespace hopfeed {

class Serving {
 public:
  /// Opens the server. Throws what Server's constructor throws.
  explicit Serving(const ServerOptions& options);
  ~Serving();  // NOLINT(bugprone-exception-escape): stop() throws without memory alone
  void wait_until_ready() { pool_.wait_until_ready(); }
  /// Runs until stop(). Never throws.
  void run();

  // ---- any thread
  void stop();
  void drain();
  bool wait_until_drained(std::chrono::milliseconds limit);
  void reload_tls();
  void on_loop(std::function<void()> task);
  wire::Address address() const { return listener_.address(); }
  std::optional<wire::Address> metrics_address() const;
  std::vector<int> worker_pids() const { return pool_.worker_pids(); }

  // ---- the loop's thread
  std::string status_text() const { return hopfeed::status_json(status()); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Plugins {
    std::string worker_program;
    std::vector<std::string> paths;
    std::vector<wire::Offer::Sampler> samplers;
  };
  static Plugins load_plugins(const ServerOptions& options);
  static std::size_t memory_of(const ServerOptions& options);
  static StateRoom room_of_state(const ServerOptions& options, const ServedDatasets& datasets,
                                 std::size_t max_memory);
  SamplingPoolOptions pool_options();
  wire::Offer make_offer() const;

  void start_coroutines();
  boost::asio::awaitable<void> watch_doorbell();
  boost::asio::awaitable<void> tick();
  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> accept_metrics();
  void take(wire::Socket socket);
  void take_metrics(wire::Socket socket);
  boost::asio::awaitable<void> serve(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> turn_away(std::shared_ptr<Session> session);
  void settle();
  void turn();
  void look_around(Clock::time_point now);
  void look_for_failure();
  void fail(const Error& failure);
  void look_whether_drained();
  void note_refused(std::uint32_t job, const Error& cause);
  void end_all();
  ServerStatus status() const;
  std::shared_ptr<const wire::Bytes> recent_status();
  const std::string& recent_metrics();

  const ServerOptions options_;
  EventLog log_;
  const Clock::time_point start_ = Clock::now();
  const Plugins plugins_;
  const std::size_t max_memory_;
  const ServedDatasets datasets_;
  const StateRoom state_room_;  // before the listener: without its folders nobody is served
  LostPartitions lost_{datasets_, log_};
  const std::shared_ptr<wire::TlsContext> tls_;  // null: plain
  IdleConnections metrics_idle_;
  std::int64_t metrics_open_ = 0;  // connections
  boost::asio::io_context loop_;
  wire::Listener listener_;
  std::optional<wire::Listener> metrics_listener_;
  ThreadPool beside_{2};
  JobOpeners openers_;
  PeerAnswers peers_;
  std::unique_ptr<StateAnswers> state_;     // null: it keeps none
  std::unique_ptr<ServedResults> results_;  // null: it serves none
  SeedStore seeds_;
  JobTable jobs_;  // before the pool, whose thread asks it
  SamplingPool pool_;
  ServerContext context_;
  boost::asio::posix::stream_descriptor doorbell_;
  MetricsPages pages_;

  Strangers strangers_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::uint64_t last_session_ = 0;
  std::atomic<bool> stopping_{false};
  std::uint64_t pauses_ = 0;  // of the listener, that were told
  bool ending_ = false;
  std::shared_ptr<const wire::Bytes> status_;  // for clients
  std::string metrics_;                        // for Prometheus
  Clock::time_point status_made_, metrics_made_;

  std::mutex drained_mutex_;
  std::condition_variable drained_changed_;
  bool drained_ = false;
  std::optional<Error> failure_;  // both guarded by drained_mutex_
};

}  // namespace hopfeed
