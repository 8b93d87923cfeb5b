// A SamplingPool has the sampling workers of a server and the slots that they fill: worker mode's channel and
// supervisor, planned from a FairPlan. One thread, the event loop's, asks for batches and takes them; the
// supervisor's keeps the workers alive, tells them what their jobs are, and refuses a job whose batches kill
// them.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/feature_tiers.h"
#include "channel/slot_layout.h"
#include "core/base/error.h"
#include "core/base/thread_annotations.h"
#include "gpu/device/gpu_options.h"
#include "peers/peer_options.h"
#include "server_client_mode/server/fair_plan.h"
#include "stream/channel_host.h"
#include "worker_mode/job_files.h"
#include "worker_mode/supervisor.h"

namespace hopfeed {

/// Plans the slots, and the bytes of the largest block that each can hold.
ChannelPlan plan_sampling_pool(std::int64_t num_workers, std::size_t max_memory);

struct SamplingPoolOptions {
  std::int64_t num_workers = 1;
  GpuOptions gpu = {};
  FeatureTiers features = {};
  PeerOptions partitions = {};       // as ServerOptions
  std::string worker_program;        // path of hopfeed-worker
  std::vector<std::string> plugins;  // absolute paths
  std::size_t max_memory = 0;        // bytes that slots may take, the allowance for the lowest included
  std::size_t max_batch_memory = 0;  // as ServerOptions
  std::size_t state_memory = 0;      // that workers leave to the server's state
  std::chrono::milliseconds batch_deadline{}, start_deadline{};
  /// A batch that has killed so many workers is failed; a job whose batches have killed more in a row, or
  /// that has a few such batches, is refused.
  int max_worker_deaths = 3;
  FindJob find_job = nullptr;  // any thread
  /// Both are called by the supervisor's thread, without a lock, and must not throw.
  std::function<void(const WorkerDeath& death)> on_death = nullptr;
  std::function<void(std::uint32_t job, const Error& cause)> on_refused = nullptr;
};

class SamplingPool {
 public:
  /// Makes the channel and starts the workers. Throws kInvalid, kNoSpace or kIo.
  explicit SamplingPool(const SamplingPoolOptions& options);
  ~SamplingPool();
  /// Throws why a worker cannot start.
  void wait_until_ready();

  // ---- the event loop's thread
  void join(std::uint64_t client, const std::string& who = {});
  void leave(std::uint64_t client);
  /// Asks for a batch, which settle() plans.
  void ask(std::uint64_t client, std::uint64_t request, const BatchRequest& batch);
  /// Withdraws a batch: nobody wants it any more, wherever it is before made() told of it.
  void withdraw(std::uint64_t client, std::uint64_t request);
  void forget(std::uint32_t job);

  /// A Block is a batch that a client has asked for: it lies in a slot until free(), or says why there is
  /// none.
  struct Block {
    std::uint64_t client = 0, request = 0;
    std::uint32_t job = 0, slot = 0, worker = 0;
    std::span<const std::byte> bytes;
    std::optional<Error> error;
    std::int64_t sampling = 0, gathering = 0;  // nanoseconds
  };
  /// Takes what is made by now, and plans, grants and frees what can be.
  std::vector<Block> settle();
  /// Returns whether something was asked for or given back since the last settle().
  bool has_news() const { return news_; }
  /// Stays awake for what settle() has planned, where that is made in no time. Returns whether something
  /// happened.
  bool stay_awake() const;
  void free(const Block& block);
  bool held_back(std::uint64_t client) const;
  std::optional<std::uint64_t> lowest(std::uint64_t client) const;
  FairPlan::ClientLoad load(std::uint64_t client) const;
  /// From now on blocks may take so many bytes, beside the allowance for one.
  void limit_blocks(std::size_t bytes);

  /// Returns a descriptor that is readable where something is made, or memory is asked for, after listen().
  int doorbell() const { return host_->doorbell().fd(); }
  void drain_doorbell() { host_->doorbell().drain(); }
  void listen() { host_->view().control().loader_event.listen(); }
  void stop_listening() { host_->view().control().loader_event.stop_listening(); }

  // ---- any thread
  std::vector<int> worker_pids() const { return supervisor_->pids(); }
  std::optional<Error> failure() const { return host_->failure(); }
  const ChannelView& view() const { return host_->view(); }
  struct Load {
    std::array<std::uint32_t, 5> slots{};  // by SlotState
    std::size_t granted = 0;               // bytes behind all slots
    std::int64_t waiting = 0;              // requests without a slot
    std::int64_t deaths = 0, remade = 0;
  };
  Load load() const;

 private:
  /// Deaths says what the workers that died of a job's batches died of.
  struct Deaths {
    int in_a_row = 0;                                       // since the last batch that was made
    std::map<std::array<std::int64_t, 3>, int> by_batch{};  // epoch, first, count; without those made since
  };
  int note_death(const WorkerDeath& death);
  void give_up(const PlannedBatch& batch, const Error& cause) REQUIRES(host_->mutex);
  void note_made(std::uint32_t job, std::uint32_t slot) REQUIRES(host_->mutex);
  void abandon(std::span<const std::uint64_t> sequences) REQUIRES(host_->mutex);

  const SamplingPoolOptions options_;
  const std::shared_ptr<ChannelHost> host_;  // its lock guards plan and deaths too
  const std::shared_ptr<FairPlan> plan_;
  std::map<std::uint32_t, Deaths> deaths_ GUARDED_BY(host_->mutex);  // by job
  std::vector<Block> given_up_ GUARDED_BY(host_->mutex);  // blocks that settle() has not told so far
  bool news_ = false, expects_soon_ = false;              // the loop's own
  std::uint32_t seen_ = 0;                                // events before the last settle()
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace hopfeed
