// Simulates evictions: how many rows of a sequence of batches a cache in front of a slow tier would have. A
// batch is a pure function, so the rows of the coming batches are known once they are sampled, and the cache
// can keep what is needed soonest (Belady, 1966). What is known are the `window` batches behind the one that
// is gathered.
//
//   static   keeps the rows of the smallest numbers (the hottest), never another one
//   lru      drops the row that was not read for longest
//   sieve    keeps a bit for each row that was read again; a hand spares those once (Zhang et al., NSDI 2024)
//   belady   keeps the rows with the nearest next use in the window; of those not needed in it, the hottest
//
// lru and sieve take each row in turn and keep every row that they read. belady sees a batch whole: its hits
// are those of its rows that were there before it, and what it leaves behind is chosen from what was there
// and what it read. Over all batches no eviction has more hits: a row kept from one use to the next is an
// interval, at most `capacity` of which may overlap, and to take the one that ends first is best.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace hopfeed {

/// A RowTrace has the distinct rows that each batch reads, numbered by falling hotness: row 0 is the hottest.
struct RowTrace {
  std::int64_t num_rows = 0;  // all there are; numbers are below it
  std::vector<std::vector<std::int64_t>> batches;
};

struct CacheHits {
  std::int64_t reads = 0, hits = 0;
  double rate() const { return reads > 0 ? static_cast<double>(hits) / static_cast<double>(reads) : 0.0; }
};

/// This window covers all batches.
inline constexpr std::int64_t kWholeEpoch = std::numeric_limits<std::int32_t>::max();

/// `capacity` is how many rows are held. lru, sieve and belady begin with an empty cache, whose first misses
/// count.
CacheHits simulate_static(const RowTrace& trace, std::int64_t capacity);
CacheHits simulate_lru(const RowTrace& trace, std::int64_t capacity);
CacheHits simulate_sieve(const RowTrace& trace, std::int64_t capacity);
/// BeladyOptions say how a cache is simulated that knows the coming batches.
struct BeladyOptions {
  std::int64_t window = 0;  // batches behind the one that is gathered whose rows are known
  /// It begins with the hottest rows, as it looks after some epochs; else empty.
  bool begins_full = false;
  /// It is told of each row that was not there.
  std::function<void(std::int64_t batch, std::int64_t row)> missed = {};
};
CacheHits simulate_belady(const RowTrace& trace, std::int64_t capacity, const BeladyOptions& options);
/// Simulates belady from an empty cache.
inline CacheHits simulate_belady(const RowTrace& trace, std::int64_t capacity, std::int64_t window) {
  return simulate_belady(trace, capacity, BeladyOptions{.window = window});
}

}  // namespace hopfeed
