// A ServerContext is what the sessions of a server share. The event loop's thread alone uses it, but for what
// says otherwise itself.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "server_client_mode/server/event_log.h"
#include "server_client_mode/server/job_openers.h"
#include "server_client_mode/server/job_table.h"
#include "server_client_mode/server/peer_answers.h"
#include "server_client_mode/server/sampling_pool.h"
#include "server_client_mode/server/seed_store.h"
#include "server_client_mode/server/served_datasets.h"
#include "server_client_mode/server/served_results.h"
#include "server_client_mode/server/server_options.h"
#include "server_client_mode/server/state_answers.h"
#include "server_client_mode/server/thread_pool.h"
#include "wire/messages.h"

namespace hopfeed {

/// ServerTotals are sums over the server's life.
struct ServerTotals {
  std::int64_t connections = 0, refused_connections = 0, failed_logins = 0;
  std::int64_t batches = 0, batch_bytes = 0;  // sent
  std::int64_t failed = 0, dropped = 0;       // batches
  std::int64_t remade_blocks = 0;             // blocks that their clients did not take in time
};

struct ServerContext {
  const ServerOptions& options;
  const ServedDatasets& datasets;
  EventLog& log;
  SeedStore& seeds;
  JobTable& jobs;
  SamplingPool& pool;
  /// It is for what would hold up the loop: hashing seeds, clusters.
  ThreadPool& beside;
  JobOpeners& openers;
  PeerAnswers& peers;
  StateAnswers* state;     // null: it keeps none
  ServedResults* results;  // null: it serves none
  wire::Offer offer = {};
  bool draining = false;
  // Each connection that is logged in is one of these.
  std::int64_t clients = 0;    // have opened a job, now or before, or are about to
  std::int64_t machines = 0;   // ask about partitions
  std::int64_t onlookers = 0;  // neither of these so far
  ServerTotals totals = {};
  std::function<std::shared_ptr<const wire::Bytes>()> status = nullptr;  // JSON
  std::map<const ServedDataset*, std::shared_ptr<const wire::Bytes>> metas =
      {};  // manifests that were asked for
  /// These sessions may have to give a block up (Session::relieve), after the next settle().
  std::vector<std::uint64_t> to_relieve = {};

  /// Returns whether nobody can log in any more.
  bool full() const { return clients + onlookers >= options.max_clients + kMaxOnlookers; }
};

/// Runs `work` on that executor and waits for its end; throws what it throws.
inline boost::asio::awaitable<void> run_on(boost::asio::any_io_executor where, std::function<void()> work) {
  auto body = [](std::function<void()> task) -> boost::asio::awaitable<void> {
    task();
    co_return;
  };
  co_await boost::asio::co_spawn(where, body(std::move(work)), boost::asio::use_awaitable);
}

}  // namespace hopfeed
