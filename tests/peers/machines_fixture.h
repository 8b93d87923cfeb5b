// Makes machines of one process or several, each with a partition of a dataset and a server that answers for
// it, for tests.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/server/server.h"
#include "tests/server_client_mode/served_stream.h"
#include "tests/worker_mode/loader_fixture.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// Returns a socket file that no other test has.
inline std::string new_socket_file(const std::string& beside) {
  static int number = 0;
  return "unix:" + beside + ".peer" + std::to_string(++number);
}

/// PeerServers are a server for each partition of a dataset in a folder, which knows the others.
class PeerServers {
 public:
  explicit PeerServers(const std::string& folder, std::int64_t num_workers = 1)
      : folder_(folder), num_workers_(num_workers) {
    for (int p = 0; p < Dataset(folder).meta().partitions; ++p) addresses_.push_back(new_socket_file(folder));
    for (std::size_t p = 0; p < addresses_.size(); ++p) servers_.push_back(make(p));
  }
  const std::vector<std::string>& addresses() const { return addresses_; }
  std::size_t size() const { return addresses_.size(); }
  Server& server(std::size_t partition) { return *servers_[partition]; }
  void stop(std::size_t partition) { servers_[partition].reset(); }
  void start(std::size_t partition) { servers_[partition] = make(partition); }
  /// Returns what a machine with that partition tells its loader.
  PeerOptions machine(int partition) const {
    PeerOptions options;
    options.own = {partition};
    options.peers = addresses_;
    options.token = kTestToken;
    return options;
  }

 private:
  std::unique_ptr<Server> make(std::size_t partition) const {
    ServerOptions options = server_options(folder_, num_workers_);
    options.listen = wire::parse_address(addresses_[partition]);
    options.partitions = machine(static_cast<int>(partition));
    return std::make_unique<Server>(options);
  }
  const std::string folder_;
  const std::int64_t num_workers_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
};

/// Returns the folder of the same graph in several partitions, where the fixture has it so: "parts3", or with
/// "halos3", or with halos and sharded ids "sharded3".
inline std::string partitioned(const std::string& folder, const char* name = "parts3") {
  const std::filesystem::path path(folder);
  const std::filesystem::path cut = path.parent_path() / name;
  return path.filename() == "parts1" && std::filesystem::exists(cut) ? cut.string() : folder;
}

/// StreamOfMachines is a stream that has the machines with it.
template <class Loaded>
class StreamOfMachines final : public BatchStream {
 public:
  template <class Open>
  StreamOfMachines(const std::string& folder, const Open& open) : servers_(folder), stream_(open(servers_)) {}
  void begin_epoch(std::int64_t epoch, std::int64_t start) override { stream_->begin_epoch(epoch, start); }
  std::optional<Batch> next() override { return stream_->next(); }
  std::int64_t steps() const override { return stream_->steps(); }
  std::int64_t num_seeds() const override { return stream_->num_seeds(); }
  std::int64_t next_position() const override { return stream_->next_position(); }
  StreamStats stats() const override { return stream_->stats(); }
  bool crowded() const override { return stream_->crowded(); }
  const BatchSpec& spec() const override { return stream_->spec(); }
  const DealOptions& deal() const override { return stream_->deal(); }
  const DatasetMeta& meta() const override { return stream_->meta(); }
  PeerServers& servers() { return servers_; }
  Loaded& stream() { return *stream_; }

 private:
  PeerServers servers_;
  std::unique_ptr<Loaded> stream_;
};

}  // namespace hopfeed
