// CacheLists holds the frames of a section that may be taken (cache_layout.h): the worst is known at
// once, and a frame changes its list in constant time. It belongs to whoever has the section's mutex.
//
// A rank says how soon a row is needed, 0 the soonest: first the rows that announced batches want, by how
// many tickets lie before the first of those, then the others, by their heat. Tickets are used in a circle,
// so that the rank of a ticket's list falls as newer ones are given, and no frame has to move for that.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cache/cache_layout.h"

namespace hopfeed {

inline constexpr int kRanks = kMaxAnnounced + kHeats;

class CacheLists {
 public:
  CacheLists(CacheSectionRecord& section, CacheFrame* frames) : section_(section), frames_(frames) {}

  /// Returns a frame by its number + 1, as numbers stand in the memory.
  CacheFrame& frame(std::uint32_t number) const { return frames_[number - 1]; }

  /// Returns how late a row is needed: the turn of the first batch that wants it, among those that are
  /// announced; its heat behind all turns where none wants it.
  int rank(std::uint32_t wanted, std::uint8_t heat) const {
    wanted &= section_.active;
    return wanted == 0 ? kMaxAnnounced + heat : std::countr_zero(std::rotr(wanted, first_ticket()));
  }
  int bucket_of(int rank) const {
    return rank < kMaxAnnounced ? (rank + first_ticket()) % kMaxAnnounced : rank;
  }

  void clear();
  void push(std::uint32_t number, int bucket);
  /// Takes a frame off whichever list it is on, if it is on any.
  void remove(std::uint32_t number);
  std::uint32_t first(int bucket) const { return section_.lists[bucket].head; }

  struct Worst {
    std::uint32_t number = 0;  // 0: no row may go
    int rank = 0;
  };
  /// Returns the frame, of those with rows, whose row is needed last.
  Worst worst() const;

 private:
  /// Returns the ticket before which tickets are the newest.
  int first_ticket() const { return static_cast<int>(section_.next_ticket % kMaxAnnounced); }
  void note_full(int bucket, bool full);

  CacheSectionRecord& section_;
  CacheFrame* const frames_;
};

}  // namespace hopfeed
