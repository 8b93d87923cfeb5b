// A ChannelStream is a BatchStream whose batches lie in the slots of a channel, whoever fills them: workers
// (worker_stream.h), the calling thread (in_process_stream.h), connections to servers
// (server_client_mode/client/remote_stream.h). What is the same for all is here; a filler adds itself.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "channel/pinned_memory.h"
#include "core/batch/batch_stream.h"
#include "core/dataset/dataset_meta.h"
#include "core/maker/batch_maker.h"
#include "stream/batch_completer.h"
#include "stream/channel_host.h"
#include "stream/loader_channel.h"
#include "stream/loader_options.h"

namespace hopfeed {

class ChannelStream : public BatchStream {
 public:
  void begin_epoch(std::int64_t epoch, std::int64_t start) override;
  std::optional<Batch> next() override;
  std::int64_t steps() const override { return channel_->steps(); }
  std::int64_t num_seeds() const override { return num_seeds_; }
  std::int64_t next_position() const override {
    return taken_ ? position_of_taken_ : channel_->next_position();
  }
  StreamStats stats() const override;
  bool crowded() const override { return channel_->crowded(); }
  const BatchSpec& spec() const override { return spec_; }
  const DealOptions& deal() const override { return deal_; }
  const DatasetMeta& meta() const override { return meta_; }
  virtual std::vector<int> worker_pids() const { return {}; }

 protected:
  ChannelStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta, std::int64_t num_seeds);
  /// next() waits `patience` at most without any sign of life from those who fill.
  ChannelStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta, std::int64_t num_seeds,
                std::chrono::milliseconds patience);
  /// Does work in the calling thread, each time before next() waits.
  virtual void work() {}
  const std::shared_ptr<ChannelHost>& host() const { return host_; }
  LoaderChannel& channel() { return *channel_; }
  /// Makes a channel as large as the maker's batches need. Throws kNoSpace where the memory does not suffice.
  void make_channel(const LoaderOptions& options, const BatchMaker& maker);
  /// Holds `rows`: batches may come packed from here on, without them. Call it before the first batch.
  void hold(std::shared_ptr<const HeldRows> rows) { completer_.emplace(std::move(rows)); }
  /// ChannelNeeds are what the memory of a channel has to suffice for.
  struct ChannelNeeds {
    std::size_t worst_block = 0;
    BatchMaker::Scratch scratch = {};  // of each batch that a worker has under way
    AvailableMemory available = {};    // memory in which blocks lie; nothing: the machine's
    std::optional<AvailableMemory> device =
        {};  // device memory in which all slots lie at once too; none: nowhere
  };
  ChannelNeeds needs_of(const BatchMaker& maker) const;
  /// Returns the bytes that the scratch of each sampling worker or thread may take, once there is a channel.
  std::size_t memory_of_worker(const LoaderOptions& options) const;
  /// Makes a channel from what is needed alone, for those who are not the loader's own workers: a record for
  /// each of options.execution.num_workers. Fills in rank, world size and observer of `told`.
  void make_channel(const LoaderOptions& options, const ChannelNeeds& needs, LoaderChannelOptions told,
                    const MakeChannelMemory& make = make_shared_memory);

 private:
  void require_own_process() const;
  void drop_taken();
  std::unique_ptr<ChannelMemory> pinned_slots(const ChannelShape& shape,
                                              std::unique_ptr<ChannelMemory> memory);
  std::shared_ptr<const BatchOwner> lease_of(const LoaderChannel::Taken& taken) const;

  const BatchSpec spec_;
  const DatasetMeta meta_;
  const DealOptions deal_;
  const std::int64_t num_seeds_;
  const std::chrono::milliseconds patience_;
  const std::function<void()> while_waiting_;  // LoaderOptions'; may be none
  PinnedMemory* pinned_slots_ = nullptr;       // the host's memory, where slots are pinned
  std::shared_ptr<ChannelHost> host_;
  std::shared_ptr<LoaderChannel> channel_;
  std::optional<BatchCompleter> completer_;
  /// next() has taken this batch and not given it yet, since there was no memory for the rest: the next call
  /// goes on with it, so that none is skipped.
  std::optional<LoaderChannel::Taken> taken_;
  std::shared_ptr<const BatchOwner> lease_;  // of that batch, where there was memory for it
  std::int64_t position_of_taken_ = 0;
};

}  // namespace hopfeed
