// What the sessions of a server share. All of it is used by the event loop's thread alone, but for what says
// otherwise itself.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server_client_mode/server/event_log.h"
#include "server_client_mode/server/job_table.h"
#include "server_client_mode/server/sampling_pool.h"
#include "server_client_mode/server/seed_store.h"
#include "server_client_mode/server/served_datasets.h"
#include "server_client_mode/server/server.h"
#include "server_client_mode/wire/messages.h"

namespace hopfeed {

/// Over the server's life.
struct ServerTotals {
  std::int64_t connections = 0, refused_connections = 0, failed_logins = 0;
  std::int64_t batches = 0, batch_bytes = 0;  // sent
  std::int64_t failed = 0, dropped = 0;       // batches
  std::int64_t remade_blocks = 0;             // that their clients did not take in time
};

struct ServerContext {
  const ServerOptions& options;
  const ServedDatasets& datasets;
  EventLog& log;
  SeedStore& seeds;
  JobTable& jobs;
  SamplingPool& pool;
  /// One thread, for what would hold up the loop: opening jobs, hashing seeds.
  boost::asio::thread_pool& beside;
  wire::Offer offer = {};
  bool draining = false;
  std::int64_t clients = 0;  // that are logged in
  ServerTotals totals = {};
  std::function<std::string()> status_json = nullptr;
  /// Sessions that may have to give a block up (Session::relieve), after the next settle().
  std::vector<std::uint64_t> to_relieve = {};
};

/// Runs `work` beside the loop and waits for its end; throws what it throws.
inline boost::asio::awaitable<void> run_beside(ServerContext& server, std::function<void()> work) {
  auto body = [](std::function<void()> task) -> boost::asio::awaitable<void> {
    task();
    co_return;
  };
  co_await boost::asio::co_spawn(server.beside.get_executor(), body(std::move(work)),
                                 boost::asio::use_awaitable);
}

}  // namespace hopfeed
