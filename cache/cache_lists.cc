// See cache_lists.h.
#include "cache/cache_lists.h"

#include <algorithm>

#include "core/base/failpoint.h"

namespace hopfeed {

void CacheLists::clear() {
  std::ranges::fill(section_.lists, CacheList{});
  std::ranges::fill(section_.full, 0);
  section_.full_tickets = 0;
}

void CacheLists::note_full(int bucket, bool full) {
  if (bucket < kFirstHeatBucket) {
    const std::uint32_t bit = std::uint32_t{1} << bucket;
    section_.full_tickets = full ? section_.full_tickets | bit : section_.full_tickets & ~bit;
  } else if (bucket < kEmptyBucket) {
    std::uint64_t& word = section_.full[(bucket - kFirstHeatBucket) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (bucket - kFirstHeatBucket) % 64;
    word = full ? word | bit : word & ~bit;
  }
}

void CacheLists::push(std::uint32_t number, int bucket) {
  CacheFrame& pushed = frame(number);
  CacheList& list = section_.lists[bucket];
  pushed.bucket = static_cast<std::uint16_t>(bucket);
  pushed.prev = list.tail;
  pushed.next = 0;
  static_cast<void>(FAILPOINT("cache.mid_list"));
  (list.tail == 0 ? list.head : frame(list.tail).next) = number;
  list.tail = number;
  note_full(bucket, true);
}

void CacheLists::remove(std::uint32_t number) {
  CacheFrame& gone = frame(number);
  if (gone.bucket == kNoBucket) return;
  CacheList& list = section_.lists[gone.bucket];
  (gone.prev == 0 ? list.head : frame(gone.prev).next) = gone.next;
  (gone.next == 0 ? list.tail : frame(gone.next).prev) = gone.prev;
  if (list.head == 0) note_full(gone.bucket, false);
  gone.bucket = kNoBucket;
}

CacheLists::Worst CacheLists::worst() const {
  for (int word = kHeats / 64; word-- > 0;) {
    if (section_.full[word] == 0) continue;
    const int heat = 64 * word + 63 - std::countl_zero(section_.full[word]);
    return {first(kFirstHeatBucket + heat), kMaxAnnounced + heat};
  }
  const std::uint32_t by_rank = std::rotr(section_.full_tickets, first_ticket());
  if (by_rank == 0) return {};
  const int rank = 31 - std::countl_zero(by_rank);
  return {first(bucket_of(rank)), rank};
}

}  // namespace hopfeed
