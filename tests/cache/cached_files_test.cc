// Features from files with the dynamic cache in front: the rows of a plain array for any ids and any order of
// calls, fewer reads, and nothing lost in the cache where reads fail.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "cache/dynamic_cache.h"
#include "cache/file_features.h"
#include "cache/read_threads.h"
#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "core/maker/mapped_features.h"
#include "tests/cache/cache_inspector.h"
#include "tests/cache/file_rows.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using testing::Faulty;
using testing::Ids;
using testing::kX;
using testing::random_ids;
using testing::rows_of;

constexpr std::int64_t kNodes = 500, kRowBytes = 256;

/// A dataset, and a cache for `frames` of its rows.
class CachedFiles : public testing::WatchedTest<120> {
 protected:
  void SetUp() override { make(200); }
  void make(std::int64_t frames) {
    if (!dataset_) {
      testing::write_rows(folder_.path() / "data", kNodes, kRowBytes / 4, 2);
      dataset_.emplace(folder_.path() / "data");
    }
    cache_.reset();
    fd_ = make_dynamic_cache(cached_attrs(*dataset_),
                             testing::bytes_for({.rows = kNodes, .row_bytes = kRowBytes, .frames = frames}));
    cache_.emplace(fd_.get());
    ASSERT_EQ(cache_->counts().frames, frames);
  }
  std::unique_ptr<FileFeatures> open(const FileFeaturesOptions& options = {
                                         .reader = {.depth = 4, .buffer_bytes = 8 * kReadAlign}}) {
    return std::make_unique<FileFeatures>(open_row_files(*dataset_, kX), options, cache_->open(kX));
  }
  std::unique_ptr<FileFeatures> open_faulty(
      Faulty::Change change, std::chrono::milliseconds read_deadline = std::chrono::minutes(1)) {
    return open({.reader = {.depth = 4, .buffer_bytes = 8 * kReadAlign},
                 .read_deadline = read_deadline,
                 .open_reader = [change](std::span<const int> files, const ReaderOptions& options) {
                   return std::make_unique<Faulty>(open_file_reader(files, options), change);
                 }});
  }
  std::vector<std::byte> expected(const Ids& ids) {
    return rows_of(*mapped_features(*dataset_, kX), ids, kRowBytes);
  }
  std::string lost() const {
    const auto mapped = mapped_features(*dataset_, kX);
    return testing::CacheInspector(fd_.get(),
                                   [&](std::int64_t row, std::span<std::byte> bytes) {
                                     const std::int64_t ids[] = {row};
                                     mapped->prepare(ids);
                                     mapped->gather(1, bytes.data());
                                   })
        .faults();
  }

  const testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
  OwnedFd fd_;
  std::optional<DynamicCache> cache_;
};

TEST_F(CachedFiles, AnyIds_InAnyOrderOfCalls_GiveTheRowsOfTheArray) {
  for (const std::int64_t frames : {1, 20, 300, 500}) {
    make(frames);
    struct Source {
      std::unique_ptr<FileFeatures> file;
      Ids ids;
      bool prepared = false;
    };
    std::vector<Source> sources(3);
    sources[0].file = open();
    sources[1].file = open({.reader = {.depth = 2, .buffer_bytes = 2 * kReadAlign}});
    sources[2].file = open({.open_reader = open_read_threads});
    std::mt19937_64 random(11);
    for (int step = 0; step < 400; ++step) {
      Source& source = sources[random() % sources.size()];
      if (!source.prepared || random() % 10 == 0) {
        source.ids = testing::skewed_ids(random, kNodes, random() % 80);
        source.file->prepare(source.ids);
        source.prepared = true;
        continue;
      }
      source.prepared = false;
      if (random() % 10 == 0) {
        source.file->drop();
        continue;
      }
      std::vector<std::byte> rows(source.ids.size() * kRowBytes, std::byte{0xee});
      const std::size_t first = random() % (source.ids.size() + 1);
      source.file->gather(first, rows.data());
      source.file->gather(source.ids.size() - first, rows.data() + first * kRowBytes);
      ASSERT_EQ(rows, expected(source.ids)) << "step " << step << ", " << frames << " frames";
    }
    for (const Source& source : sources) source.file->drop();
    EXPECT_EQ(lost(), "");
    EXPECT_GT(cache_->counts().hits, 0);
  }
}

TEST_F(CachedFiles, CountsTellWhereRowsCameFrom) {
  const auto file = open();
  const Ids ids = random_ids(kNodes, 100, 1);
  ASSERT_EQ(rows_of(*file, ids, kRowBytes), expected(ids));
  const TierCounts first = file->counts();
  EXPECT_EQ(first.file_rows, 100);
  EXPECT_EQ(first.cache_rows, 0);
  ASSERT_EQ(rows_of(*file, ids, kRowBytes, 3), expected(ids));
  const TierCounts second = file->counts();
  EXPECT_EQ(second.file_rows, 100) << "200 frames have room for all";
  EXPECT_EQ(second.cache_rows, 100);
  EXPECT_EQ(second.cache_bytes, 100 * kRowBytes);
  EXPECT_EQ(second.reads, first.reads);
  EXPECT_EQ(second.read_bytes, first.read_bytes);
}

TEST_F(CachedFiles, OnlyReadsOfRowsThatNobodyBrings_AreBegunBefore) {
  const auto one = open(), other = open();
  one->prepare(Ids{10});
  const std::int64_t before = other->counts().reads;
  other->prepare(Ids{10});
  EXPECT_EQ(other->counts().reads, before) << "it comes with the batch before";
  std::vector<std::byte> row(kRowBytes);
  one->gather(1, row.data());
  other->gather(1, row.data());
  EXPECT_EQ(row, expected({10}));
  EXPECT_EQ(other->counts().reads, before);
  EXPECT_EQ(other->counts().cache_rows, 1);
  other->prepare(Ids{400});
  EXPECT_EQ(other->counts().reads, before + 1);
  other->drop();
}

TEST_F(CachedFiles, BatchesHaveTheSameBytes_AndThoseThatAreGivenUpLeaveNothing) {
  const NodeList list(dataset_->split(0, "train"), {});
  const BatchOptions options{.fanouts = {4, 3}};
  BatchMaker mapped(*dataset_, list, options);
  BatchMaker file(*dataset_, list, options, {}, feature_sources(FeaturesFrom::kFile, &*cache_));
  BatchMaker another(*dataset_, list, options, {}, feature_sources(FeaturesFrom::kFile, &*cache_));
  for (std::int64_t first = 0; first < 200; first += 20) {
    const BatchKey key{.seed = 2, .epoch = 1, .first = first, .count = 20};
    another.sample(key);
    EXPECT_EQ(testing::make_block(file, key).view().digest(),
              testing::make_block(mapped, key).view().digest());
    another.drop();
  }
  EXPECT_EQ(lost(), "");
  EXPECT_GT(file.tier_counts().cache_rows, 0);
  EXPECT_GT(file.tier_counts().file_rows, 0);
}

TEST_F(CachedFiles, WithoutASection_OrARoomForAMember_RowsAreReadAsWithoutACache) {
  std::vector<std::unique_ptr<DynamicCache>> members;
  for (int i = 0; i < kMaxCacheMembers; ++i) members.push_back(std::make_unique<DynamicCache>(fd_.get()));
  DynamicCache full(fd_.get());
  const auto source = feature_sources(FeaturesFrom::kFile, &full)(*dataset_, kX);
  EXPECT_EQ(rows_of(*source, {3, 1, 4, 1}, kRowBytes), expected({3, 1, 4, 1}));
  EXPECT_EQ(source->counts().file_rows, 4);
}

// ---- faults

TEST_F(CachedFiles, ShortReadsAndThoseThatArePutOff_AreGoneOnWith) {
  int n = 0;
  const auto file = open_faulty([&](FileReader::Done done) {
    if (++n % 3 == 0)
      done.result = n % 2 == 0 ? -EINTR : -EAGAIN;
    else if (done.result > static_cast<std::int64_t>(2 * kReadAlign))
      done.result = done.result / 2 + 13;
    return std::optional(done);
  });
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Ids ids = random_ids(kNodes, 150, i);
    ASSERT_EQ(rows_of(*file, ids, kRowBytes), expected(ids));
  }
  EXPECT_EQ(lost(), "");
}

TEST_F(CachedFiles, FailedReads_LeaveTheCacheAsItWas_AndTheNextBatchIsWhole) {
  int fail_in = -1;
  const auto file = open_faulty([&](FileReader::Done done) {
    if (fail_in >= 0 && fail_in-- == 0) done.result = -EIO;
    return std::optional(done);
  });
  int failed = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Ids ids = random_ids(kNodes, 100, i);
    fail_in = static_cast<int>(i % 7);
    try {
      const std::vector<std::byte> rows = rows_of(*file, ids, kRowBytes);
      ASSERT_EQ(rows, expected(ids));
    } catch (const Error& error) {
      ++failed;
      ASSERT_EQ(error.code(), ErrorCode::kIo);
      ASSERT_EQ(lost(), "") << "at once, not with the next batch";
    }
    fail_in = -1;
    ASSERT_EQ(rows_of(*file, ids, kRowBytes), expected(ids));
  }
  EXPECT_GT(failed, 20);
  EXPECT_EQ(lost(), "");
}

TEST_F(CachedFiles, ReadThatNeverEnds_LeavesTheCacheAsItWas) {
  bool hangs = false;
  const auto file = open_faulty(
      [&](FileReader::Done done) { return hangs ? std::optional<FileReader::Done>() : std::optional(done); },
      std::chrono::seconds(2));
  ASSERT_EQ(rows_of(*file, {1, 2, 3}, kRowBytes), expected({1, 2, 3}));
  hangs = true;
  EXPECT_THROW(rows_of(*file, {1, 2, 3, 4}, kRowBytes), Error);
  EXPECT_EQ(lost(), "");
  EXPECT_EQ(rows_of(*file, {1, 2, 3}, kRowBytes), expected({1, 2, 3})) << "what is there needs no disk";
}

TEST_F(CachedFiles, FileTruncatedWhileInUse_WhatIsThereIsServed_AndTheRestIsSaid) {
  const auto file = open();
  const Ids first{0, 1, 2}, last{0, dataset_->attr(0, "x").partition_offsets[1] - 1};
  ASSERT_EQ(rows_of(*file, first, kRowBytes), expected(first));
  const std::vector<std::byte> want = expected(first);
  std::filesystem::resize_file(folder_.path() / "data" / "part-0000" / "nodes" / "node" / "x.npy", 4'096);
  EXPECT_EQ(rows_of(*file, first, kRowBytes), want);
  try {
    rows_of(*file, last, kRowBytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
  EXPECT_EQ(rows_of(*file, first, kRowBytes), want);
}

}  // namespace
}  // namespace hopfeed
