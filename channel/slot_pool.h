// SlotPool is the loader's side of the slots: it plans batches, grants memory, hands blocks out and takes
// slots back. "Loader" is whoever has the channel; batches may be taken in any order. It is not thread-safe:
// the owner holds a lock around each call (a lock of its own process; workers never take part in it).
//
// Memory: the sum of all grants stays within `channel_size`. Room is made by punching FREE slots, least
// recently freed first. The lowest unfinished sequence may always go `allowance` beyond, so that the batch
// the trainer waits for can be finished whatever the others hold; a slot that is freed while the sum is
// beyond the bound loses its memory at once, which is why the next one may go beyond again (the proof is
// tests/channel/slot_model_test.cc, all interleavings of a small pool). Who waits for one batch while lower
// ones lie finished may wait for their memory, and so for himself (stuck); who takes any never does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "channel/batch_plan.h"
#include "channel/channel_view.h"
#include "channel/memory.h"
#include "core/base/error.h"

namespace hopfeed {

struct SlotPoolOptions {
  std::size_t channel_size = 0;  // bytes that slots may hold in all
  std::size_t allowance = 0;     // bytes beyond for the lowest unfinished sequence: one worst-case slot
  /// One call of serve_grants() has the operating system make at most so many bytes ready for one slot, which
  /// takes it milliseconds for each 16 MiB. The planner's bell is rung for the rest, and the caller may serve
  /// others meanwhile.
  std::size_t reserve_step = std::numeric_limits<std::size_t>::max();
};

/// ChannelBells are the eventfds that are rung where somebody listens (bell.h); -1: nobody ever does.
struct ChannelBells {
  int fillers = -1, planner = -1;
};

class SlotPool {
 public:
  /// `memory` must outlive the pool and be formatted as `view` says.
  SlotPool(ChannelMemory& memory, ChannelView view, const SlotPoolOptions& options, ChannelBells bells = {});

  /// Plans a batch (FREE -> PLANNED), and wakes a worker: in the slot that was freed last (its memory is
  /// warm), or whose memory is closest to what is expected, so that small batches leave the large slots to
  /// large ones. Returns false where no slot is free. The sequence is one that no slot has.
  bool plan(const PlannedBatch& batch);
  /// Plans the batches of `from`, as plan() does, until it has none left or no slot is free. Returns how many
  /// it planned.
  std::uint32_t plan_from(BatchPlan& from);
  /// Grants memory to the workers that wait for it, lowest sequence first, as far as the bound allows. Throws
  /// kNoSpace where the operating system refuses.
  void serve_grants();
  /// Frees what was abandoned and is finished by now, and what was released and is not read any more.
  void sweep();

  /// Finished is a finished batch: the block, or why there is none.
  struct Finished {
    std::uint32_t slot = 0;
    std::uint64_t sequence = 0;
    std::span<const std::byte> block;
    std::optional<Error> error;
  };
  /// Returns the batch of this sequence where it is READY.
  std::optional<Finished> find_ready(std::uint64_t sequence) const;
  /// Returns the READY batch with the lowest sequence: for who takes batches as they come.
  std::optional<Finished> find_any_ready() const;
  /// Takes each batch that is READY (READY -> HELD), in one look at the slots; lowest sequence first.
  std::vector<Finished> take_all_ready();
  /// Returns whether the worker of the batch has said that it will be READY in a moment.
  bool announced(std::uint64_t sequence) const;
  /// Takes a finished batch: READY -> HELD.
  void take(std::uint32_t slot);
  /// Releases a batch: HELD -> FREE. Where the device still reads the slot (ChannelMemory::idle) it stays
  /// HELD, the planner's bell is rung, and one of the next sweeps frees it. Allocates nothing.
  void release(std::uint32_t slot);
  /// Returns how many released slots the device still reads: whoever keeps the channel sweeps often as long
  /// as there are any.
  std::size_t num_leaving() const { return leaving_.size(); }
  /// From now on slots may hold so many bytes in all; what is beyond it goes as slots are freed.
  void limit(std::size_t channel_size) { options_.channel_size = channel_size; }

  /// Leaves the epoch: PLANNED and READY slots are FREE at once, FILLING ones when they are finished (sweep),
  /// HELD ones when they are released.
  void abandon();
  /// Leaves one batch, as abandon() leaves them all. Does nothing where no slot has it.
  void abandon(std::uint64_t sequence);
  /// Takes back what the dead (not: seemingly dead) worker of this incarnation was filling: its FILLING slots
  /// go back to PLANNED with the same batch. Returns how many batches have to be made again.
  int reclaim(std::uint32_t incarnation);

  struct Filling {
    std::uint32_t slot = 0, owner = 0, generation = 0;
    std::uint64_t sequence = 0;
    bool waits_for_grant = false;
  };
  std::vector<Filling> filling() const;
  /// Returns what a slot was planned with.
  PlannedBatch batch_of(std::uint32_t slot) const;

  /// Stuck says why the batch of this sequence cannot get its memory, however long its worker waits.
  struct Stuck {
    std::size_t wanted = 0;  // bytes of the block
    std::size_t held = 0;    // bytes in slots that the caller holds,
    std::size_t ready = 0;   // and in those that it could take
  };
  std::optional<Stuck> stuck(std::uint64_t sequence) const;

  std::uint32_t num_slots() const { return view_.shape().num_slots; }
  /// Returns the bytes that all slots may hold together.
  std::size_t channel_size() const { return options_.channel_size; }
  /// Returns how many slots the caller holds.
  std::uint32_t num_held() const {
    return count(SlotState::kHeld) - static_cast<std::uint32_t>(leaving_.size());
  }
  /// Returns the bytes of the slots that the caller holds.
  std::size_t held_bytes() const;
  /// Returns the FREE slots, the last freed at the back.
  const std::vector<std::uint32_t>& free_order() const { return free_; }
  /// Returns the bytes granted to all slots.
  std::size_t granted() const { return granted_; }
  /// Gives back the memory of slots that nobody views. It is for the end: no worker lives, nothing is planned
  /// again.
  void punch_all_but_held();
  const ChannelView& view() const { return view_; }

 private:
  SlotWord word(std::uint32_t slot) const { return SlotWord::unpack(view_.slot(slot).word.load()); }
  void set_word(std::uint32_t slot, SlotWord word) { view_.slot(slot).word.store(word.pack()); }
  std::uint32_t count(SlotState state) const;
  std::optional<std::uint32_t> slot_of(std::uint64_t sequence) const;
  Finished finished(std::uint32_t slot) const;
  bool ready(std::uint32_t slot) const;
  bool abandon_slot(std::uint32_t slot);
  bool waits_for_grant(std::uint32_t slot) const;
  std::vector<std::uint32_t> waiting() const;  // slots that wait for a grant, lowest sequence first
  bool lowest_unfinished(std::uint32_t slot) const;
  std::size_t limit_of(std::uint32_t slot) const;
  enum class Granting { kDone, kUnderWay, kNoRoom };
  Granting try_grant(std::uint32_t slot, std::size_t& pledged);
  std::uint32_t take_free(std::size_t expected_bytes);
  bool read_by_device(std::uint32_t slot) const;
  void free_slot(std::uint32_t slot);
  void punch(std::uint32_t slot);

  ChannelMemory* memory_;
  ChannelView view_;
  SlotPoolOptions options_;
  ChannelBells bells_;
  std::vector<std::uint32_t> free_;     // FREE slots, the last freed at the back
  std::vector<std::uint32_t> leaving_;  // HELD slots that were released
  // [num_slots] says what each slot was planned with, kNoBatch where it is FREE: a few cache lines, where the
  // records are one each.
  static constexpr std::uint64_t kNoBatch = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> sequences_;
  std::uint32_t abandoned_ = 0;  // FILLING and READY slots that nobody wants
  std::size_t granted_ = 0;      // bytes, over all slots
};

}  // namespace hopfeed
