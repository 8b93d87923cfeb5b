// CacheSection is one section of a dynamic cache, as one member sees it: its mutex, and what may be done
// under it, each in constant time but rebuild(), forget_tickets() and clean_some(). Who calls them holds a
// Lock, for a pass over a batch's rows. Frames are named by their number + 1, 0: none.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cache/cache_layout.h"
#include "cache/cache_lists.h"
#include "cache/cache_table.h"
#include "cache/row_heats.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {

/// A batch waits so long for a section's mutex before it goes without the cache.
inline constexpr std::chrono::milliseconds kCacheLockDeadline{200};

class CacheSection {
 public:
  /// A Debt is what a batch could not give back, since it did not get the mutex in time: the next batch that
  /// has it does.
  struct Debt {
    std::vector<std::uint32_t> pinned, whole, torn;  // frames
    std::uint32_t tickets = 0;                       // bits, of batches whose rows are not known any more
  };

  CacheSection(std::byte* memory, CacheSectionRecord& section);
  CacheSectionRecord& record() const { return section_; }
  const CacheSectionShape& shape() const { return section_.shape; }
  /// Names the member; called before anything is used for batches.
  void set_member(int member) { member_ = member; }

  class Lock {
   public:
    /// Takes the mutex, makes good what a dead owner left, and pays this process's debts.
    explicit Lock(CacheSection& section) : section_(section), held_(section.lock()) {}
    ~Lock() { unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    /// Tells whether the mutex was had in time.
    explicit operator bool() const { return held_; }
    void unlock();

   private:
    CacheSection& section_;
    bool held_;
  };

  // ---- without the lock
  void owe(const Debt& debt);
  bool owes() const { return owes_.load(std::memory_order_relaxed); }
  /// Tells whether the mutex's owner was dead, or tickets or frames were not to be had.
  bool wants_sweep() const { return wants_sweep_.load(std::memory_order_relaxed); }
  void set_wants_sweep(bool wants) { wants_sweep_.store(wants, std::memory_order_relaxed); }
  /// Returns how hot a row is; a search, where heats are stretches of rows.
  std::uint8_t heat(std::int64_t row) const { return heat_(row); }
  std::byte* bytes(std::uint32_t frame) const {
    return frames_ + (frame - 1) * static_cast<std::size_t>(shape().row_bytes);
  }

  // ---- tickets
  /// Returns a free ticket; -1 where all are in use. One whose batch is slow is passed over and comes back by
  /// itself: a member that hangs keeps its own tickets, and no more.
  int take_ticket();
  /// Ends a ticket whose bit no row bears any more.
  void end_ticket(int ticket);
  /// Gives up tickets of batches whose rows are not known; they are had again once clean_some() has gone
  /// over all rows.
  void forget_tickets(std::uint32_t tickets);
  std::uint32_t dirty_tickets() const;
  /// Clears these bits of the table's entries from number `entry` on, of some; returns the first that it did
  /// not come to.
  std::uint64_t clean_some(std::uint64_t entry, std::uint32_t tickets);
  std::uint64_t entries() const { return table_.size(); }
  void end_cleaned(std::uint32_t tickets);

  // ---- rows; `ticket` may be -1
  /// Returns true where the row is not there, nor about to be, and no batch that was announced before wants
  /// it.
  bool want(std::int64_t row, int ticket);
  /// Clears the wish of a batch that takes its rows, whose frame the caller then pins or has seen to be
  /// missing: the frame is not moved.
  void forget_wish(std::int64_t row, int ticket) {
    if (ticket < 0) return;
    if (CacheRow* const known = table_.find(row); known != nullptr)
      known->wanted &= ~(std::uint32_t{1} << ticket);
  }
  /// Puts the row's frame where it now belongs.
  void settle(std::int64_t row);
  /// Returns the frame of the row where it may be read, which then stays as it is until unpin(); 0: it is not
  /// there.
  std::uint32_t pin(std::int64_t row);
  void unpin(std::uint32_t frame);
  int rank(std::int64_t row, std::uint8_t heat) const { return lists_.rank(wanted_of(row), heat); }
  bool has_frame(std::int64_t row) const { return frame_of(row) != 0; }
  /// Makes sure that a frame of the row would be known; false where frames of others take all its places.
  bool make_place(std::int64_t row) {
    return table_.place(row, section_.active, CacheTable::Over::kWishes) != nullptr;
  }
  /// Returns a frame to fill for the row, which has none and a place: an empty one, or that of the worst row,
  /// where it is worse. 0: none. Ends with publish() or abandon().
  std::uint32_t claim(std::int64_t row, std::uint8_t heat, int rank);
  void publish(std::uint32_t frame);
  void abandon(std::uint32_t frame);

  // ---- after deaths
  /// Makes lists and all that follows anew from the frames' and the tickets' words. `dead`: members, whose
  /// frames, pins and tickets are taken back.
  void rebuild(std::uint64_t dead);

  // ---- what comes near before it is used; each but the first wants the one before it to be near
  void prefetch_row(std::int64_t row) const;
  void prefetch_frame(std::int64_t row) const;
  void prefetch_neighbours(std::int64_t row) const;  // of its frame, in their list
  /// Fetches the frame's record as the others fetch theirs.
  void prefetch_frame_record(std::uint32_t frame) const;
  void prefetch_row_of(std::uint32_t frame) const;

 private:
  struct Freed {
    void operator()(std::uint32_t* memory) const { std::free(memory); }
  };

  std::uint64_t my_bit() const { return std::uint64_t{1} << member_; }
  bool lock();
  int try_lock();
  void pay();
  std::uint32_t frame_of(std::int64_t row) const;
  std::uint32_t wanted_of(std::int64_t row) const {
    const CacheRow* const known = table_.find(row);
    return known == nullptr ? 0 : known->wanted;
  }
  void forget_frame(std::int64_t row, std::uint32_t frame);
  FrameWord word_of(std::uint32_t frame) const;
  void push_by_rank(std::uint32_t frame, std::int64_t row);
  void empty(std::uint32_t frame);
  bool rebuild_frame(std::uint32_t number, std::uint64_t dead);

  CacheSectionRecord& section_;
  const CacheTable table_;
  const RowHeatsView heat_;
  std::byte* const frames_;
  CacheLists lists_;
  int member_ = -1;
  /// [frames] counts the batches of this process that have pinned each. Its memory is zeros, so that what is
  /// not used takes none.
  const std::unique_ptr<std::uint32_t[], Freed> my_pins_;
  /// Set where the mutex was not had within the deadline; nobody waits for it until it is free again.
  std::atomic<bool> stuck_{false};
  std::atomic<bool> wants_sweep_{false}, owes_{false};
  Mutex debt_mutex_;
  Debt debt_ GUARDED_BY(debt_mutex_);
};

}  // namespace hopfeed
