// See next_use.h.
#include "partition_tool/tune/next_use.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <tuple>
#include <vector>

namespace hopfeed {
namespace {

/// next[b][i]: the batch after b that reads the i-th row of b again; kWholeEpoch where none does. `next_of`
/// gets the first batch that reads each row.
std::vector<std::vector<std::int64_t>> next_uses(const RowTrace& trace, std::vector<std::int64_t>& next_of) {
  next_of.assign(trace.num_rows, kWholeEpoch);
  std::vector<std::vector<std::int64_t>> next(trace.batches.size());
  for (std::int64_t b = std::ssize(trace.batches) - 1; b >= 0; --b) {
    for (const std::int64_t row : trace.batches[b]) {
      next[b].push_back(next_of[row]);
      next_of[row] = b;
    }
  }
  return next;
}

}  // namespace

CacheHits simulate_static(const RowTrace& trace, std::int64_t capacity) {
  CacheHits result;
  for (const std::vector<std::int64_t>& batch : trace.batches) {
    result.reads += std::ssize(batch);
    result.hits += std::ranges::count_if(batch, [&](std::int64_t row) { return row < capacity; });
  }
  return result;
}

CacheHits simulate_lru(const RowTrace& trace, std::int64_t capacity) {
  CacheHits result;
  std::list<std::int64_t> order;  // the latest read in front
  std::vector<std::list<std::int64_t>::iterator> place(trace.num_rows, order.end());
  for (const std::vector<std::int64_t>& batch : trace.batches) {
    for (const std::int64_t row : batch) {
      ++result.reads;
      if (place[row] != order.end()) {
        ++result.hits;
        order.splice(order.begin(), order, place[row]);
        continue;
      }
      if (capacity == 0) continue;
      if (std::ssize(order) == capacity) {
        place[order.back()] = order.end();
        order.pop_back();
      }
      place[row] = order.insert(order.begin(), row);
    }
  }
  return result;
}

CacheHits simulate_sieve(const RowTrace& trace, std::int64_t capacity) {
  CacheHits result;
  std::list<std::int64_t> queue;  // the newest in front; the hand goes from the back to the front
  std::vector<std::list<std::int64_t>::iterator> place(trace.num_rows, queue.end());
  std::vector<bool> visited(trace.num_rows);
  auto hand = queue.end();  // end: begins at the oldest
  const auto evict = [&] {
    while (true) {
      if (hand == queue.end()) hand = std::prev(queue.end());
      if (!visited[*hand]) break;
      visited[*hand] = false;
      hand = hand == queue.begin() ? queue.end() : std::prev(hand);
    }
    const auto next = hand == queue.begin() ? queue.end() : std::prev(hand);
    place[*hand] = queue.end();
    queue.erase(hand);
    hand = next;
  };
  for (const std::vector<std::int64_t>& batch : trace.batches) {
    for (const std::int64_t row : batch) {
      ++result.reads;
      if (place[row] != queue.end()) {
        ++result.hits;
        visited[row] = true;
        continue;
      }
      if (capacity == 0) continue;
      if (std::ssize(queue) == capacity) evict();
      place[row] = queue.insert(queue.begin(), row);
      visited[row] = false;
    }
  }
  return result;
}

CacheHits simulate_belady(const RowTrace& trace, std::int64_t capacity, const BeladyOptions& options) {
  struct Kept {
    std::int64_t row = 0, next = 0;
  };
  std::vector<std::int64_t> first_use;
  const std::vector<std::vector<std::int64_t>> next = next_uses(trace, first_use);
  CacheHits result;
  std::vector<Kept> kept, candidates;
  std::vector<std::int64_t> read_in(trace.num_rows, -1);  // the latest batch that read the row
  std::vector<bool> cached(trace.num_rows);
  for (std::int64_t row = 0; options.begins_full && row < std::min(capacity, trace.num_rows); ++row) {
    kept.push_back({.row = row, .next = first_use[row]});
    cached[row] = true;
  }
  for (std::int64_t b = 0; b < std::ssize(trace.batches); ++b) {
    candidates.clear();
    for (std::size_t i = 0; i < trace.batches[b].size(); ++i) {
      const std::int64_t row = trace.batches[b][i];
      ++result.reads;
      if (cached[row])
        ++result.hits;
      else if (options.missed)
        options.missed(b, row);
      read_in[row] = b;
      candidates.push_back({.row = row, .next = next[b][i]});
    }
    for (const Kept& old : kept) {
      cached[old.row] = false;
      if (read_in[old.row] != b) candidates.push_back(old);
    }
    // What lies behind the window is not known yet: those rows count as equally far.
    const auto key = [&](const Kept& row) {
      return std::tuple(row.next - b <= options.window ? row.next : kWholeEpoch, row.row);
    };
    if (std::ssize(candidates) > capacity) {
      std::nth_element(candidates.begin(), candidates.begin() + capacity, candidates.end(),
                       [&](const Kept& x, const Kept& y) { return key(x) < key(y); });
      candidates.resize(capacity);
    }
    kept.swap(candidates);
    for (const Kept& row : kept) cached[row.row] = true;
  }
  return result;
}

}  // namespace hopfeed
