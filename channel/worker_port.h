// WorkerPort is a worker's side of the slots: take the lowest planned batch, ask for memory, publish. Each
// call returns at once or sleeps no longer than it was told, so that the worker can look after its parent in
// between.
//
// A worker is whoever fills slots under one name: a process, a thread, a connection to a server. A process
// may have any number of them, each with a record and a port of its own. A worker may hold several claims at
// a time; when it is dead all of them go back. Such a one goes on with its lower claims while a higher one
// waits for memory: only the lowest unfinished batch of the channel is sure to get any. One that also waits
// for sockets never sleeps here: it uses try_claim() and grant(), and is woken by the fillers' bell (bell.h).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "channel/batch_plan.h"
#include "channel/channel_view.h"
#include "core/base/error.h"
#include "core/base/huge_pages.h"
#include "core/batch/gpu_setup.h"
#include "core/batch/gpu_use.h"

namespace hopfeed {

/// A Claim is a batch that this worker fills.
struct Claim {
  std::uint32_t slot = 0;
  std::uint64_t word = 0;  // as this worker left it
  PlannedBatch batch;
  std::int64_t waiting_since = 0;  // nanoseconds: for its memory, asked or last counted; 0: does not wait
};

class WorkerPort {
 public:
  /// `worker` is the number of its record; its incarnation is read from there, once: who comes back from the
  /// dead makes a new port. `doorbell` is the planner's bell, or -1 where the planner looks by itself. One
  /// thread at a time may use a port.
  WorkerPort(ChannelView view, std::uint32_t worker, int doorbell);

  void report_ready();
  /// Notes how the dataset lies in this process, for stats.
  void note_pages(const PageUse& dataset);
  /// Notes what bringing its GPU up has taken this process, for stats.
  void note_gpu_setup(const GpuSetup& setup);
  /// Notes what a maker of its batches has used of a GPU up to `now`, of which `before` was told already.
  void note_gpu_use(const GpuUse& now, const GpuUse& before);
  /// Says that the worker cannot serve at all, and what is wrong, for the loader to throw.
  void report_failure(ErrorCode code, std::string_view message);
  bool terminating() const { return view_.control().terminate.load() != 0; }

  /// A Candidate is the PLANNED slot with the lowest sequence, as it looks now.
  struct Candidate {
    std::uint32_t slot = 0;
    std::uint64_t word = 0;
    PlannedBatch batch;
  };
  std::optional<Candidate> find_planned() const;
  /// Claims it (PLANNED -> FILLING) by one compare-and-swap; nothing where somebody else was quicker.
  std::optional<Claim> take(const Candidate& candidate);
  /// Finds and takes a slot, again until that succeeds; nothing where none is planned.
  std::optional<Claim> try_claim();
  /// Claims as try_claim() does; where none is planned it sleeps at most `limit` and tries once more.
  std::optional<Claim> claim(std::chrono::nanoseconds limit);

  enum class Grant { kGranted, kWaiting, kAbandoned };
  /// Tells the loader how large the block is. Throws kNoSpace where no slot can be that large.
  void ask(Claim& claim, std::size_t bytes);
  /// Returns the loader's answer so far.
  Grant grant(Claim& claim, std::size_t bytes);
  /// Sleeps at most `limit` for the loader's answer.
  Grant await_grant(Claim& claim, std::size_t bytes, std::chrono::nanoseconds limit);
  std::span<std::byte> block(const Claim& claim, std::size_t bytes) const {
    return view_.slot_bytes(claim.slot, bytes);
  }

  /// Notes that the worker works at this claim now: whose batch it is that a death comes from.
  void note_working(const Claim& claim);
  void note_sampled(const Claim& claim);
  void note_writing(const Claim& claim);
  void note_gathered(const Claim& claim);
  /// Notes the rows of a batch by where they were read.
  void note_tiers(const Claim& claim, const TierCounts& counts);
  /// Says that the block will be whole in a moment: wakes the loader, so that its core is out of its sleep by
  /// then.
  void announce(const Claim& claim);
  /// Publishes the block (FILLING -> READY), which may be empty where the claim was abandoned. Returns false
  /// where the slot is no longer this worker's.
  bool publish(const Claim& claim, std::size_t bytes);
  /// Publishes why there is no block (FILLING -> READY).
  bool publish_error(const Claim& claim, ErrorCode code, std::string_view message);

 private:
  bool finish(const Claim& claim);
  void tell_loader();
  void count_batch(const Claim& claim);

  ChannelView view_;
  std::uint32_t worker_;
  std::uint32_t incarnation_;
  int doorbell_;
};

}  // namespace hopfeed
