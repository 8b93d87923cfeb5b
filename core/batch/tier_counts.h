// TierCounts counts rows of features by where they were read: what each tier served, and what that took
// (docs/cache.md); beside them the questions to other machines, which are for neighbours too.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hopfeed {

struct TierCounts {
  std::int64_t memory_rows = 0, memory_bytes = 0;  // of mapped arrays
  std::int64_t cache_rows = 0, cache_bytes = 0;    // of the dynamic cache before a slow tier
  std::int64_t file_rows = 0, file_bytes = 0;      // of files, the rows' own bytes
  std::int64_t reads = 0, read_bytes = 0;          // of files: reads, and whole pages
  std::int64_t device_rows = 0, device_bytes = 0;  // of a GPU's memory
  std::int64_t peer_rows = 0, peer_bytes = 0;      // of other machines
  std::int64_t peer_questions = 0;                 // to other machines, and those of them
  std::int64_t peer_asked_twice = 0;  // that were asked of a second server, since the first was late

  static constexpr std::size_t kNumbers = 14;
  using Numbers = std::array<std::int64_t, kNumbers>;
  /// The numbers have these names in reports.
  static constexpr std::array<const char*, kNumbers> kNames{
      "memory_rows", "memory_bytes", "cache_rows",     "cache_bytes",     "file_rows",
      "file_bytes",  "reads",        "read_bytes",     "device_rows",     "device_bytes",
      "peer_rows",   "peer_bytes",   "peer_questions", "peer_asked_twice"};
  Numbers numbers() const {
    return {memory_rows, memory_bytes, cache_rows,     cache_bytes,     file_rows,
            file_bytes,  reads,        read_bytes,     device_rows,     device_bytes,
            peer_rows,   peer_bytes,   peer_questions, peer_asked_twice};
  }
  static TierCounts of(const Numbers& n) {
    return {.memory_rows = n[0],
            .memory_bytes = n[1],
            .cache_rows = n[2],
            .cache_bytes = n[3],
            .file_rows = n[4],
            .file_bytes = n[5],
            .reads = n[6],
            .read_bytes = n[7],
            .device_rows = n[8],
            .device_bytes = n[9],
            .peer_rows = n[10],
            .peer_bytes = n[11],
            .peer_questions = n[12],
            .peer_asked_twice = n[13]};
  }
  TierCounts& operator+=(const TierCounts& other) {
    Numbers sum = numbers();
    const Numbers more = other.numbers();
    for (std::size_t i = 0; i < kNumbers; ++i) sum[i] += more[i];
    return *this = of(sum);
  }
  TierCounts operator-(const TierCounts& other) const {
    Numbers left = numbers();
    const Numbers less = other.numbers();
    for (std::size_t i = 0; i < kNumbers; ++i) left[i] -= less[i];
    return of(left);
  }
  friend bool operator==(const TierCounts&, const TierCounts&) = default;

  std::int64_t slow_rows() const { return cache_rows + file_rows + peer_rows; }
  /// Returns the share of the rows that are not mapped which the cache had. 0 where there were none.
  double cache_hit_rate() const {
    return slow_rows() > 0 ? static_cast<double>(cache_rows) / static_cast<double>(slow_rows()) : 0.0;
  }
  /// Returns "300 rows: 40.0% from memory, 50.0% from the row cache, 10.0% from files (1.2 MiB read)", with a
  /// GPU's memory where it served some, and behind it what was asked twice; empty where all are mapped.
  std::string text() const;
};

}  // namespace hopfeed
