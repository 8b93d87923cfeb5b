// RemoteLoader is a BatchStream whose batches servers make (server-client mode). The bytes come as Loader
// gives them, in the same order, whatever happens to servers and connections.
//
//   RemoteLoader loader({.servers = wire::parse_addresses("10.0.0.1:9470,10.0.0.2:9470")},
//                       {.batch = {.fanouts = {15, 10, 5}}, .deal = {.rank = rank, .world_size = world}});
//
// The channel lies in this process; one thread, the only one that it starts, keeps the slots and reads blocks
// from the connections straight into them.
#pragma once
#include <memory>
#include <string>

#include "core/batch/batch_stream.h"
#include "server_client_mode/client/remote_execution.h"
#include "stream/loader_options.h"
#include "stream/stream_source.h"

namespace hopfeed {

class RemoteLoader final : public BatchStream {
 public:
  /// Connects, logs in, sends given seeds, opens the job, checks memory and makes the channel. Of `options`
  /// the dataset and what is about worker processes (num_workers, cores, plugins, worker_program, deadlines)
  /// are not read. Throws what the servers refuse, kInvalid, kTimeout where no server answers, naming it.
  RemoteLoader(const RemoteExecution& remote, const LoaderOptions& options);
  ~RemoteLoader() override;

  void begin_epoch(std::int64_t epoch, std::int64_t start = 0) override;
  std::optional<Batch> next() override;
  std::int64_t steps() const override;
  std::int64_t num_seeds() const override;
  std::int64_t next_position() const override;
  StreamStats stats() const override;
  bool crowded() const override;
  const BatchSpec& spec() const override;
  const DealOptions& deal() const override;
  const DatasetMeta& meta() const override;

 private:
  std::unique_ptr<class ChannelStream> stream_;
};

/// RemoteStreams opens streams from servers, for those who train.
class RemoteStreams final : public StreamSource {
 public:
  /// Asks a server for the dataset's metadata. Throws as RemoteLoader.
  explicit RemoteStreams(RemoteExecution remote);
  const DatasetMeta& meta() const override { return meta_; }
  std::string title() const override;
  std::unique_ptr<BatchStream> open(const LoaderOptions& options) const override;

 private:
  const RemoteExecution remote_;
  const DatasetMeta meta_;
};

/// A server's status (kStatus): an object of JSON. Throws as RemoteLoader.
std::string ask_status(const RemoteExecution& remote);

}  // namespace hopfeed
