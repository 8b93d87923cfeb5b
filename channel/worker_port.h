// A worker's side of the slots: take the lowest planned batch, ask for memory, publish. Every call either
// returns at once or sleeps no longer than it was told, so that the worker can look after its parent in
// between.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "channel/channel_view.h"
#include "channel/slot_pool.h"
#include "core/base/error.h"
#include "core/base/huge_pages.h"

namespace hopfeed {

/// A batch that this worker fills.
struct Claim {
  std::uint32_t slot = 0;
  std::uint64_t word = 0;  // as this worker left it
  PlannedBatch batch;
};

class WorkerPort {
 public:
  /// `worker` is the number of its record; its incarnation is read from there. `doorbell`: an eventfd that
  /// wakes the loader's supervisor, or -1 where somebody polls.
  WorkerPort(ChannelView view, std::uint32_t worker, int doorbell);

  void report_ready();
  /// How the dataset lies in this process, for stats.
  void note_pages(const PageUse& dataset);
  /// The worker cannot serve at all: what is wrong, for the loader to throw.
  void report_failure(ErrorCode code, std::string_view message);
  bool terminating() const { return view_.control().terminate.load() != 0; }

  /// The PLANNED slot with the lowest sequence, as it looks now.
  struct Candidate {
    std::uint32_t slot = 0;
    std::uint64_t word = 0;
    PlannedBatch batch;
  };
  std::optional<Candidate> find_planned() const;
  /// PLANNED -> FILLING by one compare-and-swap; nothing where somebody else was quicker.
  std::optional<Claim> take(const Candidate& candidate);
  /// Both until one succeeds or none is planned; then sleeps at most `limit` and tries once more.
  std::optional<Claim> claim(std::chrono::nanoseconds limit);

  enum class Grant { kGranted, kWaiting, kAbandoned };
  /// Tells the loader how large the block is. Throws kNoSpace where no slot can be that large.
  void ask(const Claim& claim, std::size_t bytes);
  Grant grant(const Claim& claim, std::size_t bytes) const;
  /// Sleeps at most `limit` for the loader's answer.
  Grant await_grant(const Claim& claim, std::size_t bytes, std::chrono::nanoseconds limit);
  std::span<std::byte> block(const Claim& claim, std::size_t bytes) const {
    return view_.slot_bytes(claim.slot, bytes);
  }

  void note_sampled(const Claim& claim);
  void note_gathered(const Claim& claim);
  /// The block will be whole in a moment: wakes the loader, so that its core is out of its sleep by then.
  void announce(const Claim& claim);
  /// FILLING -> READY with the block, which may be empty where the claim was abandoned. False where the slot
  /// is no longer this worker's.
  bool publish(const Claim& claim, std::size_t bytes);
  /// FILLING -> READY with the reason why there is no block.
  bool publish_error(const Claim& claim, ErrorCode code, std::string_view message);

 private:
  bool finish(const Claim& claim);
  void ring();
  void count_batch(const Claim& claim);

  ChannelView view_;
  std::uint32_t worker_;
  std::uint32_t incarnation_;
  int doorbell_;
  std::int64_t waited_for_this_grant_ = 0;  // nanoseconds, of the claim at hand
};

}  // namespace hopfeed
