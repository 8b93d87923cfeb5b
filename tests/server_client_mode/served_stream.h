// Makes streams over servers of this very process, for tests: a server with one dataset of its own, and a
// RemoteLoader at it.
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/server/server.h"
#include "wire/address.h"

namespace hopfeed {

inline constexpr const char* kTestToken = "a-token-of-the-tests";

/// Returns options of a server of `dataset` on a port of its own.
inline ServerOptions server_options(const std::string& dataset, std::int64_t num_workers = 2) {
  ServerOptions options;
  options.datasets = {dataset};
  options.listen = wire::parse_address("127.0.0.1:0");
  options.num_workers = num_workers;
  options.token = kTestToken;
  return options;
}

inline RemoteExecution remote_options(std::vector<wire::Address> servers) {
  RemoteExecution remote;
  remote.servers = std::move(servers);
  remote.token = kTestToken;
  return remote;
}

/// A ServedStream is a stream that has its server with it.
class ServedStream final : public BatchStream {
 public:
  ServedStream(const ServerOptions& server, RemoteExecution remote, const LoaderOptions& options)
      : server_(server) {
    remote.servers = {server_.address()};
    loader_.emplace(remote, options);
  }
  void begin_epoch(std::int64_t epoch, std::int64_t start) override { loader_->begin_epoch(epoch, start); }
  std::optional<Batch> next() override { return loader_->next(); }
  std::int64_t steps() const override { return loader_->steps(); }
  std::int64_t num_seeds() const override { return loader_->num_seeds(); }
  std::int64_t next_position() const override { return loader_->next_position(); }
  StreamStats stats() const override { return loader_->stats(); }
  bool crowded() const override { return loader_->crowded(); }
  const BatchSpec& spec() const override { return loader_->spec(); }
  const DealOptions& deal() const override { return loader_->deal(); }
  const DatasetMeta& meta() const override { return loader_->meta(); }
  Server& server() { return server_; }

 private:
  Server server_;
  std::optional<RemoteLoader> loader_;
};

}  // namespace hopfeed
