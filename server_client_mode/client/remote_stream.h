// RemoteStream is the stream of server-client mode: connections to servers fill the slots of a channel in
// this process.
#pragma once
#include <memory>

#include "server_client_mode/client/remote_execution.h"
#include "stream/channel_stream.h"
#include "stream/slot_fillers.h"

namespace hopfeed {

class RemoteStream final : public ChannelStream {
 public:
  /// Opens a stream as RemoteLoader's constructor does.
  static std::unique_ptr<RemoteStream> open(const RemoteExecution& given, const LoaderOptions& options);
  ~RemoteStream() override;

 private:
  RemoteStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta, std::int64_t num_seeds,
               std::chrono::milliseconds patience);

  std::unique_ptr<SlotFillers> fillers_;  // ends before what it uses
};

}  // namespace hopfeed
