// DynamicCache holds feature rows in front of a slow tier (files; other machines), in memory that all of a
// machine share. Which rows it keeps is decided by the future, not by the past: a batch is a pure function,
// so the rows of the coming batches are known once they are sampled. Each batch that is sampled announces its
// rows; when it has been gathered, the cache keeps of what it held and of what was read those rows that are
// needed soonest by announced batches (Belady, 1966), then the hottest (partition_tool/tune/next_use.h
// simulates the same).
//
//   memory, a sealed memfd     made once, mapped by every worker
//     section                  one per attribute that is read from files
//       frames                 a row each: EMPTY, READING(owner), VALID, and who has pinned it
//       rows                   per row that matters: its frame, and which announced batches want it
//
// Who gathers a batch pins the rows of it that are there, copies them, and reads the others; only then are
// frames chosen, filled from the finished batch, and marked VALID. So a frame is never written while somebody
// reads it, and a cache that is lost, slow or broken costs reads and never a byte.
//
// A section's bookkeeping is changed under a robust mutex, held for a pass over one batch's rows and never
// while anything is read. Nobody depends on it: who does not get it in time goes without the cache. Where its
// owner died, the next one builds the lists again from what each frame says of itself. A member of the cache
// holds a lock of an open file description (F_OFD_SETLK) for its life: the kernel lets go of it at any death,
// and whoever joins next takes back the dead member's pins, frames and announcements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/maker/cached_rows.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

class DynamicCache {
 public:
  /// Maps what make_dynamic_cache() made (cache_memory.h) and joins it, unless it has all the members that it
  /// can have. `fd` may be closed afterwards. Throws kCorrupt where it is none, kIo.
  explicit DynamicCache(int fd);
  ~DynamicCache();
  DynamicCache(const DynamicCache&) = delete;
  DynamicCache& operator=(const DynamicCache&) = delete;

  /// Returns the rows of one attribute for one source; null where the attribute has no section, or the cache
  /// takes no further member. The cache must outlive it.
  std::unique_ptr<CachedRows> open(const FeatureName& what);

  /// Counts are sums over all sections and members, since the cache was made.
  struct Counts {
    std::int64_t frames = 0, valid = 0;  // now
    std::int64_t reads = 0, hits = 0;    // rows of gathered batches, those that were there
    std::int64_t kept = 0, evicted = 0;  // rows
    std::int64_t bypassed = 0;           // batches that went without, since the mutex was not had in time
    std::int64_t rebuilt = 0,
                 swept = 0;  // lists made anew after the death of a mutex's owner; dead members taken back
    std::size_t bytes = 0;   // of the memory
  };
  Counts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
