// A Server is a sampling server: its workers make batches for any number of clients, which connect, open jobs
// and ask for batches. docs/architecture.md ("Server-client mode") has the picture.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server_client_mode/server/server_options.h"
#include "wire/address.h"

namespace hopfeed {

class Server {
 public:
  /// Opens the datasets, listens, starts the workers and its thread, and waits until all are ready. Throws
  /// kInvalid, kNotFound, kCorrupt, kNoSpace, kIo (the port is in use) naming option, file or address.
  explicit Server(const ServerOptions& options);
  /// Closes all connections and ends the workers.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  wire::Address address() const;  // with the port that it got
  std::optional<wire::Address> metrics_address() const;
  /// Drains it: what was asked for is delivered, nothing new is taken; clients are told. Any thread.
  void drain();
  /// Returns whether the server is drained and nobody waits for anything any more; waits `limit` at most.
  /// Throws why the server has failed.
  bool wait_until_drained(std::chrono::milliseconds limit);
  /// Reads certificates again, for connections to come. Any thread.
  void reload_tls();
  /// Returns the server's state as kStatus gives it: JSON (docs/protocol.md).
  std::string status_json() const;
  std::vector<int> worker_pids() const;  // for tests

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
