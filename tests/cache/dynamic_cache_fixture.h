// Tests of the dynamic cache share this: a cache of exactly so many frames, rows whose bytes tell which they
// are, and batches that are made of them as a source of features makes them.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "cache/dynamic_cache.h"
#include "partition_tool/tune/next_use.h"

namespace hopfeed::testing {

inline const FeatureName kRows{.store = Store::kNode, .type = 0, .name = "x"};

struct CacheShape {
  std::int64_t rows = 1'000, row_bytes = 72;
  std::int64_t frames = 100;
  /// Gives each row its own heat, which 256 rows at most can have; else by its place.
  bool exact_heat = false;
};

inline std::uint8_t heat_of(const CacheShape& shape, std::int64_t row) {
  return shape.exact_heat ? static_cast<std::uint8_t>(row) : heat_of_place(row, shape.rows);
}
inline CachedAttr cached_attr(const CacheShape& shape) {
  return {.what = kRows,
          .rows = shape.rows,
          .row_bytes = shape.row_bytes,
          .heat = RowHeats::of_each(shape.rows, [&](std::int64_t row) { return heat_of(shape, row); })};
}

/// Returns a budget that gives shape.frames: what these need, and half a frame, which is not given.
inline std::size_t bytes_for(const CacheShape& shape) {
  const CachedAttr attr = cached_attr(shape);
  const double share = (static_cast<double>(shape.frames) + 0.5) / static_cast<double>(shape.rows);
  constexpr std::int64_t kFrame = 32;
  return dynamic_cache_bytes({&attr, 1}, std::min(share, 1.0)) +
         static_cast<std::size_t>(shape.row_bytes + kFrame) / 2;
}

inline OwnedFd make_cache(const CacheShape& shape) {
  const CachedAttr attr = cached_attr(shape);
  OwnedFd fd = make_dynamic_cache({&attr, 1}, bytes_for(shape));
  EXPECT_EQ(DynamicCache(fd.get()).counts().frames, shape.frames);
  return fd;
}

/// Writes the row's bytes: all of them differ from those of other rows, and from each other.
inline void write_row(std::int64_t row, std::span<std::byte> out) {
  std::uint64_t state = static_cast<std::uint64_t>(row) * 0x9e3779b97f4a7c15U + 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
}

/// A RowTaker makes batches of one source.
class RowTaker {
 public:
  RowTaker(std::unique_ptr<CachedRows> rows, std::int64_t row_bytes)
      : rows_(std::move(rows)), row_bytes_(static_cast<std::size_t>(row_bytes)) {}

  void announce(const std::vector<std::int64_t>& ids) {
    ids_ = ids;
    rows_->announce(ids);
  }
  /// Takes what is there and compares it with what it must be; false where a byte differs.
  bool take() {
    out_.assign(ids_.size() * row_bytes_, std::byte{0});
    hits_ = 0;
    std::vector<bool> there(ids_.size());
    for (const CachedRows::Hit& hit : rows_->take()) {
      if (hit.at >= ids_.size() || there[hit.at]) return false;
      there[hit.at] = true;
      ++hits_;
      std::memcpy(&out_[hit.at * row_bytes_], hit.row, row_bytes_);
    }
    std::vector<std::byte> row(row_bytes_);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      write_row(ids_[i], row);
      std::byte* const at = out_.data() + i * row_bytes_;
      if (there[i] && std::memcmp(at, row.data(), row_bytes_) != 0) return false;
      std::memcpy(at, row.data(), row_bytes_);  // read
    }
    return true;
  }
  void keep() {
    rows_->keep([this](std::size_t i) { return out_.data() + i * row_bytes_; });
  }
  bool batch(const std::vector<std::int64_t>& ids) {
    announce(ids);
    const bool right = take();
    keep();
    return right;
  }
  std::int64_t hits() const { return hits_; }  // of the last take()
  CachedRows& rows() { return *rows_; }

 private:
  std::unique_ptr<CachedRows> rows_;
  std::size_t row_bytes_;
  std::vector<std::int64_t> ids_;
  std::vector<std::byte> out_;
  std::int64_t hits_ = 0;
};

/// Returns the rows as batches of neighbours have them: the small numbers often, the others seldom, some
/// twice.
inline std::vector<std::int64_t> skewed_ids(std::mt19937_64& random, std::int64_t rows, std::size_t count) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    ids.push_back(std::min(rows - 1, static_cast<std::int64_t>(u * u * u * static_cast<double>(rows))));
  }
  return ids;
}

/// Makes a trace of distinct rows.
inline RowTrace skewed_trace(std::int64_t rows, int batches, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RowTrace trace{.num_rows = rows, .batches = {}};
  for (int b = 0; b < batches; ++b) {
    const std::vector<std::int64_t> ids = skewed_ids(random, rows, count);
    const std::set<std::int64_t> distinct(ids.begin(), ids.end());
    trace.batches.emplace_back(distinct.begin(), distinct.end());
  }
  return trace;
}

/// Returns the hits of the trace's batches, made one after the other by the members in turn, each batch
/// announced so many batches ahead. Fails where a byte is wrong.
inline std::int64_t replay(const RowTrace& trace, int fd, std::int64_t row_bytes, std::size_t window,
                           std::size_t members = 1) {
  std::vector<std::unique_ptr<DynamicCache>> caches;
  for (std::size_t m = 0; m < members; ++m) caches.push_back(std::make_unique<DynamicCache>(fd));
  std::vector<RowTaker> takers;  // one for each batch that is announced at a time
  for (std::size_t i = 0; i <= window; ++i) takers.emplace_back(caches[i % members]->open(kRows), row_bytes);
  std::int64_t hits = 0;
  std::size_t announced = 0;
  for (std::size_t b = 0; b < trace.batches.size(); ++b) {
    for (; announced < trace.batches.size() && announced <= b + window; ++announced)
      takers[announced % takers.size()].announce(trace.batches[announced]);
    RowTaker& taker = takers[b % takers.size()];
    EXPECT_TRUE(taker.take()) << "batch " << b;
    taker.keep();
    hits += taker.hits();
  }
  return hits;
}

}  // namespace hopfeed::testing
