// The dynamic cache: the bytes of a plain array whatever happens, hits of Belady's choices, what it counts,
// and what it refuses. Deaths are those of dynamic_cache_crash_test.cc.
#include "cache/dynamic_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/cache_layout.h"
#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "core/base/error.h"
#include "partition_tool/tune/next_use.h"
#include "partition_tool/tune/tune_measure.h"
#include "tests/cache/cache_inspector.h"
#include "tests/cache/dynamic_cache_fixture.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using testing::CacheShape;
using testing::kRows;
using testing::make_cache;
using testing::RowTaker;
using Ids = std::vector<std::int64_t>;

class DynamicCacheTest : public testing::WatchedTest<120> {};

// ---- bytes

TEST_F(DynamicCacheTest, AnyBatchesOfAnyMembers_HaveTheBytesOfAPlainArray) {
  for (const auto& [rows, row_bytes, frames] :
       {std::tuple{50, 64, 1}, {500, 100, 17}, {500, 513, 400}, {300, 72, 300}, {40, 20'000, 20}}) {
    const CacheShape shape{.rows = rows, .row_bytes = row_bytes, .frames = frames};
    const OwnedFd fd = make_cache(shape);
    DynamicCache one(fd.get()), other(fd.get());
    std::vector<RowTaker> takers;
    for (DynamicCache* cache : {&one, &one, &other, &other, &other})
      takers.emplace_back(cache->open(kRows), row_bytes);
    std::mt19937_64 random(7);
    for (int step = 0; step < 400; ++step) {
      RowTaker& taker = takers[random() % takers.size()];
      const Ids ids = testing::skewed_ids(random, rows, random() % 60);
      switch (random() % 6) {
        case 0:  // announced, and perhaps given up for the next one
          taker.announce(ids);
          break;
        case 1:
          taker.announce(ids);
          ASSERT_TRUE(taker.take());
          taker.rows().drop();
          break;
        default:
          ASSERT_TRUE(taker.batch(ids)) << "step " << step << ", " << frames << " frames";
      }
    }
    const DynamicCache::Counts counts = one.counts();
    EXPECT_EQ(counts.valid, counts.kept - counts.evicted);
    EXPECT_LE(counts.valid, counts.frames);
    EXPECT_GT(counts.hits, 0);
    EXPECT_EQ(counts.bypassed + counts.rebuilt + counts.swept, 0);
  }
}

TEST_F(DynamicCacheTest, ThreadsOfOneMember_HaveTheBytesOfAPlainArray) {  // what ThreadSanitizer looks at
  for (const std::int64_t frames : {3, 60, 2'000}) {
    const CacheShape shape{.rows = 2'000, .frames = frames};
    const OwnedFd fd = make_cache(shape);
    DynamicCache cache(fd.get());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        RowTaker taker(cache.open(kRows), shape.row_bytes);
        std::mt19937_64 random(t);
        for (int step = 0; step < 300; ++step)
          if (!taker.batch(testing::skewed_ids(random, shape.rows, 1 + random() % 200))) ++wrong;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(cache.counts().valid, cache.counts().kept - cache.counts().evicted);
  }
}

TEST_F(DynamicCacheTest, ThreadsOfSeveralMembers_HaveTheBytesOfAPlainArray) {
  const CacheShape shape{.rows = 2'000, .frames = 150};
  const OwnedFd fd = make_cache(shape);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int life = 0; life < 20; ++life) {
        DynamicCache cache(fd.get());
        RowTaker a(cache.open(kRows), shape.row_bytes), b(cache.open(kRows), shape.row_bytes);
        for (int step = 0; step < 20; ++step) {
          b.announce(testing::skewed_ids(random, shape.rows, 100));
          if (!a.batch(testing::skewed_ids(random, shape.rows, 200))) ++wrong;
          std::swap(a, b);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const DynamicCache::Counts counts = DynamicCache(fd.get()).counts();
  EXPECT_EQ(counts.valid, counts.kept - counts.evicted);
  EXPECT_EQ(counts.swept, 0) << "who leaves is not taken for dead";
}

TEST_F(DynamicCacheTest, ARowThatIsPinned_IsNeverOverwritten) {
  const CacheShape shape{.rows = 100, .frames = 4};
  const OwnedFd fd = make_cache(shape);
  DynamicCache one(fd.get()), other(fd.get());
  RowTaker reader(one.open(kRows), 72), writer(other.open(kRows), 72);
  ASSERT_TRUE(writer.batch({90, 91, 92, 93}));
  reader.announce({90, 91, 92, 93});
  const auto hits = reader.rows().take();
  ASSERT_EQ(hits.size(), 4U);
  for (std::int64_t row = 0; row < 50; ++row) ASSERT_TRUE(writer.batch({row, row + 1}));  // all hotter
  EXPECT_EQ(one.counts().evicted, 0);
  std::vector<std::byte> want(72);
  for (const CachedRows::Hit& hit : hits) {
    testing::write_row(90 + static_cast<std::int64_t>(hit.at), want);
    EXPECT_EQ(std::memcmp(hit.row, want.data(), 72), 0);
  }
  reader.rows().drop();
  ASSERT_TRUE(writer.batch({1, 2}));
  EXPECT_EQ(one.counts().evicted, 2) << "and may be once it is let go of";
}

TEST_F(DynamicCacheTest, ABatchWhoseRowsCannotBeHad_KeepsThoseThatCame) {
  const CacheShape shape{.rows = 100, .frames = 10};
  const OwnedFd fd = make_cache(shape);
  DynamicCache cache(fd.get());
  const auto rows = cache.open(kRows);
  RowTaker taker(cache.open(kRows), 72);
  const Ids ids{0, 1, 2, 3};
  rows->announce(ids);
  rows->take();
  std::vector<std::byte> row(72);
  EXPECT_THROW(rows->keep([&](std::size_t i) -> const std::byte* {
    if (ids[i] == 2) throw Error(ErrorCode::kIo, "gone");
    testing::write_row(ids[i], row);
    return row.data();
  }),
               Error);
  EXPECT_EQ(cache.counts().valid, 2);
  ASSERT_TRUE(taker.batch(ids));
  EXPECT_EQ(taker.hits(), 2);
  EXPECT_EQ(cache.counts().valid, 4) << "no frame is lost";
}

// ---- which rows

TEST_F(DynamicCacheTest, HitsAreThoseOfBelady_WhereEachRowHasAHeatOfItsOwn) {
  // Rows with the same next use are alike: whichever stays, both are at hand again once that batch has read
  // them. So hits are equal, not just about.
  const RowTrace trace = testing::skewed_trace(250, 60, 60, 3);
  for (const std::int64_t frames : {1, 10, 50, 125, 249})
    for (const std::size_t window : {0U, 1U, 2U, 4U, 16U, 31U})
      for (const std::size_t members : {1U, 3U}) {
        const CacheShape shape{.rows = 250, .frames = frames, .exact_heat = true};
        const OwnedFd fd = make_cache(shape);
        EXPECT_EQ(testing::replay(trace, fd.get(), shape.row_bytes, window, members),
                  simulate_belady(trace, frames, static_cast<std::int64_t>(window)).hits)
            << frames << " frames, window " << window << ", " << members << " members";
      }
}

TEST_F(DynamicCacheTest, HitsAreAboutThoseOfBelady_WhereHeatIsOfClasses) {
  // Rows of one class are alike to the cache. A class has a 16th to a 32nd of the rows before it, so that it
  // is the least of those that are kept which may be the wrong ones: at most a 16th.
  const RowTrace trace = testing::skewed_trace(20'000, 60, 3'000, 4);
  for (const std::int64_t frames : {500, 2'000, 6'000})
    for (const std::size_t window : {0U, 2U, 4U}) {
      const OwnedFd fd = make_cache({.rows = 20'000, .frames = frames});
      const std::int64_t hits = testing::replay(trace, fd.get(), 72, window);
      const std::int64_t best = simulate_belady(trace, frames, static_cast<std::int64_t>(window)).hits;
      EXPECT_GE(hits, best - best / 16) << frames << " frames, window " << window;
      EXPECT_LE(hits, best + best / 16);
    }
}

TEST_F(DynamicCacheTest, WhereFewRowsHaveAnEntry_HitsAreThoseOfBeladyAllTheSame) {
  const RowTrace trace = testing::skewed_trace(1'000'000, 40, 3'000, 4);
  for (const std::int64_t frames : {1'500, 6'000})
    for (const std::size_t members : {1U, 3U}) {
      const CacheShape shape{.rows = 1'000'000, .frames = frames};
      const OwnedFd fd = make_cache(shape);
      EXPECT_LT(DynamicCache(fd.get()).counts().bytes, static_cast<std::size_t>(2 * shape.rows));
      const std::int64_t hits = testing::replay(trace, fd.get(), 72, 4, members);
      const std::int64_t best = simulate_belady(trace, frames, 4).hits;
      EXPECT_GT(hits, best - best / 16) << frames << " frames";
      EXPECT_LE(hits, best + best / 16);
    }
}

TEST_F(DynamicCacheTest, MoreIsWantedThanATableKnows_BytesAreThoseOfAPlainArray) {
  const CacheShape shape{.rows = 1'000'000, .frames = 20};  // 512 places
  const OwnedFd fd = make_cache(shape);
  DynamicCache one(fd.get()), other(fd.get());
  std::mt19937_64 random(3);
  std::vector<RowTaker> takers;
  for (int i = 0; i < 12; ++i) takers.emplace_back((i % 2 == 0 ? one : other).open(kRows), shape.row_bytes);
  for (RowTaker& taker : takers) taker.announce(testing::skewed_ids(random, 3'000, 100));
  for (int step = 0; step < 500; ++step) {
    RowTaker& taker = takers[static_cast<std::size_t>(step) % takers.size()];
    ASSERT_TRUE(taker.take()) << "step " << step;
    taker.keep();
    taker.announce(testing::skewed_ids(random, 3'000, 100));
  }
  for (RowTaker& taker : takers) taker.rows().drop();
  EXPECT_EQ(one.counts().valid, 20) << "frames find a place before wishes do";
  EXPECT_GT(one.counts().hits, 0);
  testing::expect_nothing_lost(fd.get());
}

TEST_F(DynamicCacheTest, MemoryGrowsWithWhatIsHeld_AndNotWithTheRows) {
  const auto bytes_of = [](std::int64_t rows, std::size_t budget) {
    const CachedAttr attr{.what = kRows, .rows = rows, .row_bytes = 512, .heat = {}};
    const OwnedFd fd = make_dynamic_cache({&attr, 1}, budget);
    return DynamicCache(fd.get()).counts();
  };
  for (const std::int64_t rows : {std::int64_t{1} << 24, std::int64_t{1} << 34, std::int64_t{1} << 40}) {
    const DynamicCache::Counts counts = bytes_of(rows, 64 << 20);
    EXPECT_LE(counts.bytes, 64U << 20);
    EXPECT_GT(counts.frames * (512 + 32), (64 << 20) * 7 / 10) << rows << " rows";
  }
}

TEST_F(DynamicCacheTest, OfAGraphsBatches_AWindowOfFourHasNearlyAllThatBeladyHas) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(
      folder.path() / "data",
      testing::random_graph({.num_nodes = 20'000, .num_edges = 300'000, .num_train = 12'000}));
  const Dataset dataset(folder.path() / "data");
  const TunePass pass = measure_batches(
      dataset, dataset.split(0, "train"),
      {.batch = {.fanouts = {10, 5}}, .batch_size = 256, .most_batches = 100, .keep_trace = true});
  const std::int64_t rows = pass.trace.num_rows;
  for (const double held : {0.1, 0.2, 0.3}) {
    const auto frames = static_cast<std::int64_t>(held * static_cast<double>(rows));
    const OwnedFd fd = make_cache({.rows = rows, .frames = frames});
    const std::int64_t hits = testing::replay(pass.trace, fd.get(), 72, 4, 2);
    const CacheHits best = simulate_belady(pass.trace, frames, kWholeEpoch);
    EXPECT_GE(hits, best.hits * 97 / 100) << frames << " of " << rows << " rows";
    EXPECT_GE(hits, simulate_static(pass.trace, frames).hits + best.reads / 10);
  }
}

TEST_F(DynamicCacheTest, CountsAreThoseOfASimulation) {
  const RowTrace trace = testing::skewed_trace(250, 40, 50, 9);
  const CacheShape shape{.rows = 250, .frames = 40, .exact_heat = true};
  const OwnedFd fd = make_cache(shape);
  DynamicCache cache(fd.get());
  testing::replay(trace, fd.get(), shape.row_bytes, 2);
  const CacheHits want = simulate_belady(trace, 40, 2);
  const DynamicCache::Counts counts = cache.counts();
  EXPECT_EQ(counts.reads, want.reads);
  EXPECT_EQ(counts.hits, want.hits);
  EXPECT_EQ(counts.valid, 40);
  EXPECT_EQ(counts.kept - counts.evicted, 40);
  EXPECT_LE(counts.kept, want.reads - want.hits);
  EXPECT_LE(counts.bytes, testing::bytes_for(shape));
}

TEST_F(DynamicCacheTest, AbsentAreTheRowsThatNobodyBrings) {
  const OwnedFd fd = make_cache({.rows = 100, .frames = 10});
  DynamicCache cache(fd.get());
  RowTaker first(cache.open(kRows), 72), second(cache.open(kRows), 72), third(cache.open(kRows), 72);
  ASSERT_TRUE(first.batch({1, 2}));
  second.announce({3, 4});
  third.announce({2, 3, 5, 3, 5});
  const auto absent = third.rows().absent();
  EXPECT_EQ(std::vector<std::size_t>(absent.begin(), absent.end()), (std::vector<std::size_t>{2, 4}));
}

TEST_F(DynamicCacheTest, HeatsGrowWithThePlace_AndAllAreUsed) {
  std::vector<bool> used(256);
  int last = 0;
  for (std::int64_t place = 0; place < 3'000'000; ++place) {
    const int heat = heat_of_place(place, 3'000'000);
    ASSERT_GE(heat, last);
    used[static_cast<std::size_t>(last = heat)] = true;
  }
  EXPECT_EQ(std::count(used.begin(), used.end(), true), 256);
  EXPECT_EQ(heat_of_place(0, 1), 0);
}

TEST_F(DynamicCacheTest, AttributesOfADataset_AreThoseWithLongRows_HotterByTheirPlace) {
  const testing::TempFolder folder;
  testing::TinyGraph graph = testing::random_graph({.num_nodes = 300, .x_width = 16});
  testing::write_tiny_dataset(folder.path() / "data", graph, testing::random_cut(graph, 3, 1));
  const Dataset dataset(folder.path() / "data");
  const std::vector<CachedAttr> attrs = cached_attrs(dataset);
  ASSERT_EQ(attrs.size(), 1U) << "labels are short";
  EXPECT_EQ(attrs[0].what.name, "x");
  EXPECT_EQ(attrs[0].rows, 300);
  EXPECT_EQ(attrs[0].row_bytes, 64);
  const auto offsets = dataset.attr(0, "x").partition_offsets;
  for (std::size_t p = 0; p < 3; ++p)
    for (std::int64_t row = offsets[p]; row < offsets[p + 1]; ++row)
      EXPECT_EQ(attrs[0].heat(row), heat_of_place(row - offsets[p], offsets[p + 1] - offsets[p])) << row;
}

// ---- members, tickets and budgets

TEST_F(DynamicCacheTest, TheSixtyFifthMember_GoesWithoutIt_UntilOneLeaves) {
  const OwnedFd fd = make_cache({});
  std::vector<std::unique_ptr<DynamicCache>> members;
  for (int i = 0; i < kMaxCacheMembers; ++i) {
    members.push_back(std::make_unique<DynamicCache>(fd.get()));
    ASSERT_NE(members.back()->open(kRows), nullptr) << i;
  }
  EXPECT_EQ(DynamicCache(fd.get()).open(kRows), nullptr);
  members.erase(members.begin() + 5);
  EXPECT_NE(DynamicCache(fd.get()).open(kRows), nullptr);
}

TEST_F(DynamicCacheTest, MoreBatchesThanTickets_GoUnannounced_AndHaveTheirBytes) {
  const OwnedFd fd = make_cache({.rows = 1'000, .frames = 500});
  DynamicCache cache(fd.get());
  std::mt19937_64 random(1);
  std::vector<RowTaker> takers;
  for (int i = 0; i < 3 * kMaxAnnounced; ++i) {
    takers.emplace_back(cache.open(kRows), 72);
    takers.back().announce(testing::skewed_ids(random, 1'000, 50));
  }
  for (RowTaker& taker : takers) {
    ASSERT_TRUE(taker.take());
    taker.keep();
  }
  // Tickets have come back, all of them: again a window gives Belady's hits.
  takers.clear();
  const RowTrace trace = testing::skewed_trace(1'000, 40, 100, 5);
  EXPECT_GT(testing::replay(trace, fd.get(), 72, 16), 0);
}

TEST_F(DynamicCacheTest, ASlowBatch_KeepsItsTicketAndNoOther) {
  const OwnedFd fd = make_cache({.rows = 250, .frames = 50, .exact_heat = true});
  DynamicCache cache(fd.get());
  RowTaker slow(cache.open(kRows), 72);
  slow.announce({});
  const RowTrace trace = testing::skewed_trace(250, 100, 60, 6);
  const std::int64_t hits = testing::replay(trace, fd.get(), 72, 8);
  EXPECT_EQ(hits, simulate_belady(trace, 50, 8).hits) << "others go on being announced";
  EXPECT_TRUE(slow.take());
}

TEST_F(DynamicCacheTest, EveryAttributeGetsTheSameShareOfItsRows) {
  std::vector<CachedAttr> attrs{testing::cached_attr({.rows = 10'000, .row_bytes = 400}),
                                testing::cached_attr({.rows = 1'000, .row_bytes = 64}),
                                testing::cached_attr({.rows = 0})};
  attrs[1].what = {.store = Store::kEdge, .type = 3, .name = "w"};
  const OwnedFd fd = make_dynamic_cache(attrs, 1'000'000);
  DynamicCache cache(fd.get());
  EXPECT_LE(cache.counts().bytes, 1'000'000U);
  EXPECT_GT(cache.counts().bytes, 990'000U);
  RowTaker large(cache.open(kRows), 400), small(cache.open(attrs[1].what), 64);
  EXPECT_EQ(cache.open({.store = Store::kEdge, .type = 2, .name = "w"}), nullptr);
  Ids all(1'000);
  std::iota(all.begin(), all.end(), 0);
  ASSERT_TRUE(small.batch(all));
  const std::int64_t of_small = cache.counts().valid;
  all.resize(10'000);
  std::iota(all.begin(), all.end(), 0);
  ASSERT_TRUE(large.batch(all));
  EXPECT_EQ(cache.counts().valid, cache.counts().frames);
  EXPECT_NEAR(static_cast<double>(of_small), static_cast<double>(cache.counts().frames - of_small) / 10, 1.0);
}

TEST_F(DynamicCacheTest, ABudgetForAll_HoldsAll_AndTakesNoMore) {
  const CachedAttr attr = testing::cached_attr({.rows = 100});
  const OwnedFd fd = make_dynamic_cache({&attr, 1}, std::size_t{1} << 30);
  DynamicCache cache(fd.get());
  EXPECT_EQ(cache.counts().frames, 100);
  EXPECT_LT(cache.counts().bytes, 64U << 10);
}

TEST_F(DynamicCacheTest, ABudgetBelowARow_IsRefused) {
  const CachedAttr attr = testing::cached_attr({.rows = 1'000});
  expect_refused([&] { make_dynamic_cache({&attr, 1}, 20'000); }, "no room for a row of each attribute");
  expect_refused([&] { make_dynamic_cache({&attr, 1}, 0); }, "no room");
  expect_refused([] { make_dynamic_cache({}, 1 << 20); }, "nothing to cache");
}

TEST_F(DynamicCacheTest, MoreThanTheMachineHas_IsRefused) {
  const CachedAttr attr{.what = kRows, .rows = std::int64_t{1} << 40, .row_bytes = 512, .heat = {}};
  expect_refused(
      [&] {
        make_dynamic_cache({&attr, 1}, std::size_t{1} << 45);
      },
      "the cache needs", ErrorCode::kNoSpace);
}

TEST_F(DynamicCacheTest, LayoutIsTheTableOfTheFormats) {
  EXPECT_EQ(offsetof(CacheHeader, version), 8U);
  EXPECT_EQ(offsetof(CacheHeader, num_sections), 12U);
  EXPECT_EQ(offsetof(CacheHeader, total_bytes), 16U);
  EXPECT_EQ(offsetof(CacheHeader, swept), 24U);
  EXPECT_EQ(offsetof(CacheHeader, members), 64U);
  EXPECT_EQ(offsetof(CacheSectionShape, name), 8U);
  EXPECT_EQ(offsetof(CacheSectionShape, rows), 40U);
  EXPECT_EQ(offsetof(CacheSectionShape, num_frames), 56U);
  EXPECT_EQ(offsetof(CacheSectionShape, num_places), 64U);
  EXPECT_EQ(offsetof(CacheSectionShape, num_runs), 72U);
  EXPECT_EQ(offsetof(CacheSectionShape, keys_offset), 80U);
  EXPECT_EQ(offsetof(CacheSectionShape, frames_offset), 112U);
  EXPECT_EQ(offsetof(CacheSectionRecord, mutex), 128U);
  EXPECT_EQ(offsetof(CacheSectionRecord, tickets), 192U);
  EXPECT_EQ(offsetof(CacheSectionRecord, next_ticket), 320U);
  EXPECT_EQ(offsetof(CacheSectionRecord, fresh), 328U);
  EXPECT_EQ(offsetof(CacheSectionRecord, full), 336U);
  EXPECT_EQ(offsetof(CacheSectionRecord, lists), 372U);
  EXPECT_EQ(offsetof(CacheSectionRecord, valid), 2688U);
  EXPECT_EQ(offsetof(CacheSectionRecord, rebuilt), 3072U);
  EXPECT_EQ(offsetof(CacheFrame, pins), 8U);
  EXPECT_EQ(offsetof(CacheFrame, prev), 16U);
  EXPECT_EQ(offsetof(CacheFrame, bucket), 24U);
  EXPECT_EQ(offsetof(CacheFrame, heat), 26U);
  const FrameWord word{.state = FrameState::kReading, .owner = 63, .row = (std::int64_t{1} << 48) - 1};
  EXPECT_EQ(word.pack(), 0xff'ffff'ffff'fffdU);
  EXPECT_EQ(FrameWord::unpack(word.pack()).row, word.row);
  EXPECT_EQ(FrameWord::unpack(word.pack()).owner, 63);
}

TEST_F(DynamicCacheTest, AShareOfTheRows_IsWhatItsBudgetHolds) {
  const std::vector<CachedAttr> attrs{testing::cached_attr({.rows = 12'345, .row_bytes = 400})};
  for (const double share : {0.001, 0.1, 0.5, 1.0}) {
    const OwnedFd fd = make_dynamic_cache(attrs, dynamic_cache_bytes(attrs, share));
    EXPECT_EQ(DynamicCache(fd.get()).counts().frames, static_cast<std::int64_t>(share * 12'345));
  }
}

TEST_F(DynamicCacheTest, WhatIsNoCache_IsRefused) {
  const auto refused = [](int fd, const std::string& part, ErrorCode code = ErrorCode::kCorrupt) {
    expect_refused([&] { DynamicCache cache(fd); }, part, code);
  };
  refused(-1, "no cache");
  const OwnedFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  refused(file.get(), "no cache");
  const OwnedFd plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), 1 << 20), 0);
  refused(plain.get(), "no cache");
  ASSERT_EQ(fcntl(plain.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  refused(plain.get(), "no cache");
}

TEST_F(DynamicCacheTest, EachDamagedFieldOfTheHeader_IsRefused) {
  const auto damaged = [](const std::function<void(CacheHeader&, CacheSectionRecord&)>& damage) {
    OwnedFd fd = make_cache({});
    void* const memory = mmap(nullptr, 2 * kCachePage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    damage(*static_cast<CacheHeader*>(memory),
           *reinterpret_cast<CacheSectionRecord*>(static_cast<std::byte*>(memory) + kCachePage));
    munmap(memory, 2 * kCachePage);
    return fd;
  };
  const std::vector<std::function<void(CacheHeader&, CacheSectionRecord&)>> kinds{
      [](CacheHeader& header, CacheSectionRecord&) { header.magic = 1; },
      [](CacheHeader& header, CacheSectionRecord&) { header.total_bytes += 4096; },
      [](CacheHeader& header, CacheSectionRecord&) { header.num_sections = 0; },
      [](CacheHeader& header, CacheSectionRecord&) { header.num_sections = 1 << 30; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.rows = -1; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.rows *= 2; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.row_bytes = 0; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_frames = 1ULL << 60; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_frames = 0; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_places = 1ULL << 60; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_places += 8; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_runs = 1ULL << 61; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.num_runs += 1'000; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.heat_offset += 64; },
      [](CacheHeader&, CacheSectionRecord& section) { section.shape.frames_offset = 0; }};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    SCOPED_TRACE(i);
    const OwnedFd fd = damaged(kinds[i]);
    expect_refused([&] { DynamicCache cache(fd.get()); }, "no cache", ErrorCode::kCorrupt);
  }
  const OwnedFd newer = damaged([](CacheHeader& header, CacheSectionRecord&) { header.version += 1; });
  expect_refused([&] { DynamicCache cache(newer.get()); }, "version 3", ErrorCode::kVersion);
}

}  // namespace
}  // namespace hopfeed
