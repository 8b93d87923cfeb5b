// The dataset folder: written whole or not at all, checked at the door, verified to the last byte; damaged
// graphs are errors of the sampler and never wild reads.
#include "core/dataset/dataset.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "core/base/limits.h"
#include "core/dataset/dataset_writer.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

using testing::file_bytes;
using testing::golden;
using testing::verify;
using testing::write_bytes;

class DatasetFolder : public ::testing::Test {
 protected:
  DatasetFolder() {
    graph_ = testing::random_graph({.num_nodes = 60, .num_edges = 400, .num_train = 30, .seed = 3});
    testing::write_tiny_dataset(data_, graph_, testing::random_cut(graph_, 2, 5));
  }
  testing::TempFolder temp_;
  fs::path data_ = temp_.path() / "data";
  testing::TinyGraph graph_;
};

TEST_F(DatasetFolder, VerifiesAndAgreesWithTheImport) {
  verify(data_);
  const Dataset dataset(data_);
  const AttrView x = dataset.attr(0, "x");
  for (std::int64_t node = 0; node < graph_.num_nodes; ++node) {
    const std::int64_t id = dataset.dataset_id(0, node);
    EXPECT_EQ(dataset.original_id(0, id), node);
    const int p = partition_of(x.partition_offsets, id);
    const auto* row =
        reinterpret_cast<const float*>(x.parts[p] + (id - x.partition_offsets[p]) * x.stride_bytes);
    for (std::int64_t f = 0; f < graph_.x_width; ++f) EXPECT_EQ(row[f], graph_.x[node * graph_.x_width + f]);
  }
}

TEST_F(DatasetFolder, TheFingerprintNamesTheContentAndNotTheCut) {
  const std::string fingerprint = Dataset(data_).meta().fingerprint;
  testing::write_tiny_dataset(temp_.path() / "other", graph_, testing::random_cut(graph_, 3, 99));
  EXPECT_EQ(Dataset(temp_.path() / "other").meta().fingerprint, fingerprint);
  testing::TinyGraph changed = graph_;
  std::swap(changed.src[0], changed.src[1]);
  testing::write_tiny_dataset(temp_.path() / "other", changed);
  EXPECT_NE(Dataset(temp_.path() / "other").meta().fingerprint, fingerprint);
}

TEST_F(DatasetFolder, EveryFileTruncatedOrChangedIsNamed) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(data_)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_GT(files.size(), 10u);
  for (const fs::path& file : files) {
    const std::string whole = file_bytes(file);
    const bool meta = file.filename() == "meta.json";  // its fields: tests/partition_tool/damage_test.cc
    std::vector<std::string> variants{"", whole.substr(0, whole.size() / 2),
                                      whole.substr(0, whole.size() - 1), whole + '\0'};
    for (std::size_t at = 0; at < whole.size(); at += meta ? 7 : whole.size() / 9 + 1) {
      variants.push_back(whole);
      variants.back()[at] = static_cast<char>(variants.back()[at] ^ 0x10);
    }
    for (const std::string& variant : variants) {
      write_bytes(file, variant);
      try {
        verify(data_);
        ADD_FAILURE() << file << " was damaged and verified";
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kVersion ||
                    error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kNotFound)
            << error.what();
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        EXPECT_NE(std::string(error.what()).find(file.filename().string()), std::string::npos)
            << file << ": " << error.what();
      }
    }
    write_bytes(file, whole);
  }
  verify(data_);
}

TEST_F(DatasetFolder, MissingFilesAndFoldersAreNamed) {
  EXPECT_THROW(Dataset(temp_.path() / "nowhere"), Error);
  EXPECT_THROW(Dataset{temp_.path()}, Error);  // no meta.json
  const fs::path attr = data_ / "part-0001/nodes/node/x.npy";
  fs::remove(attr);
  try {
    Dataset dataset(data_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("part-0001/nodes/node/x.npy"), std::string::npos)
        << error.what();
  }
}

TEST_F(DatasetFolder, AnotherVersionIsRefusedAsSuch) {
  std::string meta = file_bytes(data_ / "meta.json");
  const std::size_t at = meta.find("\"version\": 4");
  ASSERT_NE(at, std::string::npos);
  meta.replace(at, 12, "\"version\": 99");
  write_bytes(data_ / "meta.json", meta);
  try {
    Dataset dataset(data_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVersion);
  }
}

// Overwrites 8 bytes of a mapped file in place, as a bad disk would.
void poke(const fs::path& path, std::size_t offset_from_data, std::int64_t value, std::size_t bytes) {
  const std::size_t data = NpyArray(path).header().data_offset;
  const int fd = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, &value, bytes, static_cast<off_t>(data + offset_from_data)),
            static_cast<ssize_t>(bytes));
  ::close(fd);
}

TEST_F(DatasetFolder, DamagedRowsAndIdsAreErrorsOfTheSampler) {
  testing::write_tiny_dataset(data_, testing::ring_graph(60));
  const Dataset dataset(data_);
  const fs::path rows = data_ / "part-0000/edges/node__to__node/rows.npy",
                 indices = data_ / "part-0000/edges/node__to__node/indices.npy";
  EXPECT_NO_THROW(testing::make_batch(dataset, {.seeds = {10}}, {.fanouts = {-1}}));
  for (std::int64_t bad : {std::int64_t{-1}, std::int64_t{60}, std::int64_t{INT32_MAX}}) {
    poke(indices, 10 * 2 * 4, bad, 4);
    try {
      testing::make_batch(dataset, {.seeds = {10}}, {.fanouts = {-1}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos) << error.what();
    }
  }
  poke(indices, 10 * 2 * 4, 9, 4);
  EXPECT_NO_THROW(testing::make_batch(dataset, {.seeds = {10}}, {.fanouts = {-1}}));
  for (std::int64_t bad :
       {std::int64_t{-8}, std::int64_t{1} << 40, std::int64_t{21}}) {  // before, beyond, and falling
    poke(rows, 11 * 16, bad == 21 ? 19 : bad, 8);
    try {
      testing::make_batch(dataset, {.seeds = {10}}, {.fanouts = {-1}});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("rows.npy: row 10"), std::string::npos) << error.what();
    }
  }
}

TEST_F(DatasetFolder, AWriterThatIsNotCommittedLeavesNothing) {
  const fs::path target = temp_.path() / "unfinished";
  {
    DatasetWriter writer(target);
    const std::vector<std::int64_t> ids{1, 2};
    writer.write<std::int64_t>("splits/node/train.npy", ids, {2});
    EXPECT_FALSE(fs::exists(target));
  }
  EXPECT_FALSE(fs::exists(target));
  for (const auto& entry : fs::directory_iterator(temp_.path())) EXPECT_EQ(entry.path(), data_);
}

TEST_F(DatasetFolder, ExistingFoldersAreLeftAsTheyAre) {
  EXPECT_THROW(DatasetWriter{data_}, Error);
  EXPECT_NO_THROW(DatasetWriter(data_, {.overwrite = true}));
  fs::create_directory(temp_.path() / "mine");
  write_bytes(temp_.path() / "mine/letter.txt", "dear");
  EXPECT_THROW(DatasetWriter(temp_.path() / "mine", {.overwrite = true}), Error);
  verify(data_);
}

TEST_F(DatasetFolder, ADatasetInsideADatasetIsRefused) {
  for (const fs::path& inside : {data_ / "sub", data_ / "nodes/deeper/down"}) {
    try {
      DatasetWriter writer(inside);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(error.what()).find("lies inside the dataset " + data_.string()),
                std::string::npos);
    }
  }
  verify(data_);
}

std::set<std::string> file_names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// The temporary folder of a writer that was killed.
fs::path left_by_a_killed_writer(const fs::path& target) {
  const std::set<std::string> before = file_names_in(target.parent_path());
  const pid_t child = fork();
  if (child == 0) {
    DatasetWriter writer(target);
    const std::vector<std::int64_t> ids{1, 2};
    writer.write<std::int64_t>("splits/node/train.npy", ids, {2});
    _exit(0);  // no destructor
  }
  waitpid(child, nullptr, 0);
  for (const std::string& name : file_names_in(target.parent_path())) {
    if (!before.contains(name)) return target.parent_path() / name;
  }
  return {};
}

TEST_F(DatasetFolder, WhatAKilledWriterLeftIsSwept) {
  const fs::path left = left_by_a_killed_writer(temp_.path() / "new");
  ASSERT_TRUE(fs::exists(left / "splits/node/train.npy"));
  { DatasetWriter another(temp_.path() / "newer"); }
  EXPECT_TRUE(fs::exists(left)) << "of another target";
  { DatasetWriter writer(temp_.path() / "new"); }
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(DatasetFolder, AWriterThatLivesKeepsItsFolder) {
  DatasetWriter writer(temp_.path() / "new");
  const pid_t child = fork();
  if (child == 0) {
    { DatasetWriter other(temp_.path() / "new"); }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(writer.temporary_folder()));
}

TEST_F(DatasetFolder, AKilledWriterThatNobodyWaitedFor_IsDeadAllTheSame) {
  const pid_t child = fork();
  if (child == 0) {
    DatasetWriter left(temp_.path() / "new");
    _exit(0);  // no destructor
  }
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, child, &ended, WEXITED | WNOWAIT), 0);  // ended, and still there
  const auto temporary_folders = [&] {
    return std::count_if(
        fs::directory_iterator(temp_.path()), fs::directory_iterator(),
        [](const auto& entry) { return entry.path().filename().string().starts_with(".new.tmp-"); });
  };
  EXPECT_EQ(temporary_folders(), 1);
  { DatasetWriter writer(temp_.path() / "new"); }
  EXPECT_EQ(temporary_folders(), 0);
  waitpid(child, nullptr, 0);
}

// B on a shared file system: a pid says nothing about processes elsewhere.
TEST_F(DatasetFolder, AnotherMachinesWriterIsLeftAloneForADay) {
  const fs::path own = left_by_a_killed_writer(temp_.path() / "new"),
                 foreign = temp_.path() / ".new.tmp-0badb007-1-77-123";
  fs::rename(own, foreign);
  { DatasetWriter writer(temp_.path() / "new"); }
  EXPECT_TRUE(fs::exists(foreign));
  const auto two_days_ago = fs::file_time_type::clock::now() - std::chrono::hours(48);
  for (const auto& entry : fs::recursive_directory_iterator(foreign))
    fs::last_write_time(entry.path(), two_days_ago);
  fs::last_write_time(foreign, two_days_ago);
  { DatasetWriter writer(temp_.path() / "new"); }
  EXPECT_FALSE(fs::exists(foreign));
}

// An attribute may have any name, that of a table too.
TEST(DatasetPaths, OnlyWhatIsMadeOfOtherFilesIsDerived) {
  const EdgeTypeMeta edge;
  for (const std::string& path :
       {alias_path(3, edge, "w"), time_order_path(0, edge, "t"), times_path(0, edge, "t"),
        time_codes_path(0, edge, "t"), time_indices_path(0, edge, "t"), time_bounds_path(edge, "t"),
        by_id_path(1, edge), rows_path(halo_of(2), edge), attr_path(halo_of(0), {}, "x"),
        halo_places_path(1, {}), remote_ids_path(1, {}), id_buckets_path(1, {}),
        remote_ids_path(halo_of(1), {})})
    EXPECT_TRUE(is_derived_path(path)) << path;
  for (const std::string& path : {rows_path(0, edge),
                                  indices_path(0, edge),
                                  edge_ids_path(0, edge),
                                  edge_attr_path(0, edge, "by_id"),
                                  edge_attr_path(0, edge, "times"),
                                  attr_path(0, {}, "by_id"),
                                  attr_path(0, {}, "alias"),
                                  hotness_path(0, {}),
                                  original_ids_path(0, {}),
                                  new_ids_path({}),
                                  split_path({}, "times"),
                                  link_times_path(edge, "alias"),
                                  std::string("meta.json"),
                                  new_ids_path({.name = "halo"}),
                                  split_path({.name = "halo"}, "train"),
                                  attr_path(0, {.name = "halo"}, "x"),
                                  new_ids_shard_path(0, {}),
                                  split_shard_path(0, {}, "remote"),
                                  link_pairs_shard_path(0, edge, "ids"),
                                  attr_path(0, {.name = "ids"}, "remote")})
    EXPECT_FALSE(is_derived_path(path)) << path;
}

// ---- golden files: each version that was ever written, as it was written

// F26
TEST(GoldenDataset, OfEarlierVersions_AreRefusedAsSuch) {
  for (const std::string version : {"1", "2"}) {
    try {
      const Dataset dataset(golden("ring-v" + version));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kVersion);
      EXPECT_NE(
          std::string(error.what())
              .find("dataset version " + version + ", this hopfeed reads version 10: import the data again"),
          std::string::npos)
          << error.what();
    }
  }
}

// Version 6 brought the codes of times, and 7 the sources in alias tables, without which they are read.
TEST(GoldenDataset, OfAnOlderVersion_IsReadUnlessItHasTimes) {
  verify(golden("ring-v3"));
  testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "times", {.nodes = {{.count = 2, .time = {1, 2}}},
                                                         .edges = {{.sources = {0}, .destinations = {1}}}});
  std::string meta = file_bytes(folder.path() / "times/meta.json");
  meta.replace(meta.find("\"version\": 6"), 12, "\"version\": 5");
  try {
    parse_meta(seal_meta(meta), "meta.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVersion);
    EXPECT_STREQ(
        error.what(),
        "meta.json has dataset version 5 with times, this hopfeed reads version 10: import the data again");
  }
}

// What no checksum sees: files that are each whole, and do not belong together.
TEST(RowsInTheOrderOfTime, ThatAreNotWhatTheirTimesGive_AreFoundByVerify) {
  const struct {
    const char* file;
    std::size_t bytes;
    const char* what;
  } cases[] = {
      {"part-0000/edges/node__to__node/time_order/time.npy", 4, "row 0 is not in the order of time"},
      {"part-0000/edges/node__to__node/times/time.npy", 8, "row 0 is not in the order of time"},
      {"part-0000/edges/node__to__node/time_codes/time.npy", 2, "row 0 has other codes than its times have"},
      {"part-0000/edges/node__to__node/time_indices/time.npy", 4, "row 0 has other neighbours"},
      {"time_bounds/node__to__node/time.npy", 8, "its bounds are not in order"}};
  for (const auto& [file, bytes, what] : cases) {
    testing::TempFolder folder;
    const fs::path data = folder.path() / "data";
    testing::write_typed_dataset(
        data,
        {.nodes = {{.count = 5}},
         .edges = {{.sources = {1, 2, 3, 4}, .destinations = {0, 0, 0, 0}, .time = {9, 7, 5, 3}}}},
        {.bounds_apart = 1});
    verify(data);
    testing::swap_first_two(data, file, bytes);
    try {
      verify(data);
      ADD_FAILURE() << file << " passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
}

TEST(RowsInTheOrderOfTime, WithMoreBoundsThanCodes_AreRefused) {
  testing::TempFolder folder;
  const fs::path data = folder.path() / "data", bounds = data / "time_bounds/node__to__node/time.npy";
  testing::write_typed_dataset(
      data, {.nodes = {{.count = 2}}, .edges = {{.sources = {1}, .destinations = {0}, .time = {9}}}});
  for (const std::size_t count : {kMaxTimeBounds, kMaxTimeBounds + 1}) {
    std::vector<std::int64_t> rising(count);
    std::iota(rising.begin(), rising.end(), 0);
    std::string file = npy_head(npy_descr(ElementType::kInt64), {static_cast<std::int64_t>(count)});
    file.append(reinterpret_cast<const char*>(rising.data()), count * sizeof(std::int64_t));
    DatasetMeta meta = parse_meta(file_bytes(data / "meta.json"), "meta.json");
    meta.files.at(fs::relative(bounds, data).string()) = {.bytes = file.size(),
                                                          .xxh3 = XXH3_64bits(file.data(), file.size())};
    write_bytes(bounds, file);
    write_bytes(data / "meta.json", seal_meta(format_meta(meta)));
    if (count <= kMaxTimeBounds) {
      EXPECT_NO_THROW(Dataset{data});
      continue;
    }
    expect_refused([&] { Dataset{data}; },
                   "time_bounds/node__to__node/time.npy: it has 65536 bounds, at most 65535 can be",
                   ErrorCode::kCorrupt);
  }
}

// A seed of another version would be refused before the fuzzer could reach anything.
TEST(GoldenDataset, TheFuzzersManifestsAreOfVersionsThatAreRead) {
  for (const char* name : {"meta.json", "meta_without_edge_splits.json"}) {
    const std::string seed =
        file_bytes(fs::path(std::getenv("HOPFEED_SOURCE")) / "tests/fuzz/corpus/dataset" / name);
    EXPECT_NO_THROW(parse_meta(seal_meta(seed.substr(1)), name))
        << "run fuzz_dataset on its corpus with HOPFEED_STORE_CORPUS=tests/fuzz/corpus/dataset";
  }
}

// F26
TEST(GoldenDataset, OfThisVersion_IsReadAndWrittenByteByByte) {
  testing::TempFolder folder;
  const fs::path made = folder.path() / "ring";
  testing::write_tiny_dataset(made, testing::labelled_ring());
  testing::expect_golden(made, "ring-v4");
}

}  // namespace
}  // namespace hopfeed
