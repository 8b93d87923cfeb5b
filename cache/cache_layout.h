// The dynamic cache's memory is a header, a record per section, then the arrays of each section.
// Every member maps the same bytes; nothing in them is a pointer, and all of it is zero in the beginning, so
// that pages are taken only where they are used. It never leaves the machine, nor the build of hopfeed.
//
//   offset            size               what
//   0                 4096               CacheHeader
//   4096              4096 * sections    CacheSectionRecord each, one per attribute
//   keys_offset       8 * num_places     row + 1 of each place, 0: none      } of each section; every array
//   rows_offset       8 * num_places     CacheRow each; num_places being 0:  } begins at a multiple of 64
//                     8 * rows           by dataset id                       }
//   heat_offset       8 * num_runs       HeatRun each (row_heats.h);         }
//                     rows               num_runs being 0: one byte each     }
//   records_offset    32 * num_frames    CacheFrame each                     }
//   frames_offset     row_bytes each     the frames themselves, no gaps      }
//
// What decides after a death stands in single words, each stored at once: a frame's `word` and `pins`, a
// ticket's word, a key of the table, a row's `wanted`. All the rest (lists, CacheRow::frame, the counts of
// what there is) follows from these, and whoever gets the mutex of a dead owner makes it anew.
//
//   a frame's word   bits 0..1 FrameState, 2..7 the member that fills it, 8..63 the row
//
//   from      to        by          when
//   EMPTY     READING   member m    keep(): the row is worth a frame
//   VALID     READING   member m    the same; nobody has pinned it, and its row is needed later than the new
//   READING   VALID     member m    the row's bytes are whole
//   READING   EMPTY     member m    the bytes could not be had
//   READING   EMPTY     who sweeps  m is dead
//
//   a ticket's word  0: free; 1 + m: a batch of member m is announced; kTicketDirty: rows may still bear the
//                    bit of a batch that is gone, so that it is given to nobody before they were cleared
//
// All of it belongs to the section's mutex but for the bytes of frames (to who has pinned them or fills them)
// and the counters, which anybody adds to.
//
// A member holds the write lock of an open file description on byte `m` of the memory, m its number; who has
// the lock owns that slot, to use it or to sweep it. Byte kMaxCacheMembers is the sweeper's.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hopfeed {

inline constexpr std::uint64_t kCacheMagic = 0x3148434143504F48;  // "HOPCACH1"
inline constexpr std::uint32_t kCacheVersion = 2;
inline constexpr std::size_t kCachePage = 4096;

/// A section knows so many announced batches at a time. More are gathered all the same, unannounced.
inline constexpr int kMaxAnnounced = 32;
/// So many processes are members at a time. More go without the cache.
inline constexpr int kMaxCacheMembers = 64;

struct CacheHeader {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint32_t version;
  std::uint32_t num_sections;
  std::uint64_t total_bytes;
  std::atomic<std::int64_t> swept;  // dead members, ever
  std::byte reserved0[32];
  std::atomic<std::uint32_t> members[kMaxCacheMembers];  // 1: in use, by whoever has the lock
  std::byte reserved1[kCachePage - 64 - 4 * kMaxCacheMembers];
};
static_assert(sizeof(CacheHeader) == kCachePage);

/// CacheRow is what the cache knows of one row of the attribute.
struct CacheRow {
  std::uint32_t frame;   // its number + 1, 0: none. A hint: it holds where the frame's word says this row
  std::uint32_t wanted;  // bit t: the batch with ticket t wants the row
};
static_assert(sizeof(CacheRow) == 8);

enum class FrameState : std::uint32_t { kEmpty = 0, kReading = 1, kValid = 2 };

/// FrameWord has the parts of a frame's word.
struct FrameWord {
  FrameState state = FrameState::kEmpty;
  int owner = 0;  // the member that fills it, in kReading
  std::int64_t row = 0;

  static FrameWord unpack(std::uint64_t word) {
    return {static_cast<FrameState>(word & 3), static_cast<int>(word >> 2 & 63),
            static_cast<std::int64_t>(word >> 8)};
  }
  std::uint64_t pack() const {
    return static_cast<std::uint64_t>(row) << 8 | static_cast<std::uint64_t>(owner) << 2 |
           static_cast<std::uint64_t>(state);
  }
};

struct CacheFrame {
  std::atomic<std::uint64_t> word;  // FrameWord
  std::atomic<std::uint64_t> pins;  // bit m: member m reads it
  std::uint32_t prev, next;         // in its list: numbers + 1, 0: none
  std::uint16_t bucket;             // which list that is
  std::uint8_t heat;                // of its row
  std::byte reserved[5];
};
static_assert(sizeof(CacheFrame) == 32);

/// Lists hold the frames that may be taken, by the next use of their row: there is one per ticket, one per
/// class of heat for rows that no announced batch wants, and one for empty frames. Frames that are pinned or
/// filled are on none.
inline constexpr int kHeats = 256;
inline constexpr int kFirstHeatBucket = kMaxAnnounced;
inline constexpr int kEmptyBucket = kFirstHeatBucket + kHeats;
inline constexpr int kNoBucket = kEmptyBucket + 1;

inline constexpr std::uint32_t kTicketDirty = ~std::uint32_t{0};

struct CacheList {
  std::uint32_t head, tail;  // numbers + 1, 0: none
};

/// A row of the table lies in one of so many places, which share a line.
inline constexpr std::uint64_t kPlacesOfABucket = 8;

/// CacheSectionShape says what a section is for, and where its arrays begin. It is written once.
struct CacheSectionShape {
  std::uint32_t store = 0, type = 0;  // FeatureName
  char name[32] = {};                 // padded by NUL
  std::int64_t rows = 0, row_bytes = 0;
  std::uint64_t num_frames = 0;
  std::uint64_t num_places = 0;  // of the table of rows (cache_table.h); 0: each row has its own
  std::uint64_t num_runs = 0;    // of heats; 0: each row has a byte
  std::uint64_t keys_offset = 0, rows_offset = 0, heat_offset = 0, records_offset = 0, frames_offset = 0;
  friend bool operator==(const CacheSectionShape&, const CacheSectionShape&) = default;
};

struct CacheSectionRecord {
  CacheSectionShape shape;
  alignas(64) pthread_mutex_t mutex;  // robust, between processes
  // The rest belongs to who has the mutex.
  alignas(64) std::atomic<std::uint32_t> tickets[kMaxAnnounced];
  std::uint32_t next_ticket;  // the ticket that is given next, if it is free
  std::uint32_t active;       // bit t: a batch is announced under it
  std::uint32_t fresh;        // frames from here on were never used
  std::uint32_t reserved1;
  std::uint64_t full[kHeats / 64];    // bit h: the list of heat h is not empty
  std::uint32_t full_tickets;         // bit t: the list of ticket t is not empty
  CacheList lists[kEmptyBucket + 1];  //by ticket, then by heat, then the empty ones
  // The counters have a line of their own: they are added to without the mutex too.
  alignas(64) std::atomic<std::int64_t> valid, reads, hits, kept, evicted, bypassed, rebuilt;
};
static_assert(sizeof(CacheSectionRecord) <= kCachePage);
static_assert(sizeof(pthread_mutex_t) <= 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hopfeed
