// Features that are read from files: the rows of a plain array for any ids, by both mechanisms and both kinds
// of access, and what is said when reads fail.
#include "cache/file_features.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/io_ring.h"
#include "cache/read_threads.h"
#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "core/maker/mapped_features.h"
#include "tests/cache/file_rows.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Access = RowFile::Access;
using testing::Faulty;
using testing::Ids;
using testing::kX;
using testing::random_ids;
using testing::rows_of;
using testing::write_rows;

constexpr ReaderOptions kFewBuffers{.depth = 2, .buffer_bytes = 2 * kReadAlign};

// ---- the conformance suite

std::unique_ptr<FileReader> ring_alone(std::span<const int> files, const ReaderOptions& options) {
  auto ring = open_io_ring(files, options);
  if (!ring) throw Error(ErrorCode::kUnsupported, "no io_uring");
  return ring;
}

struct Mechanism {
  std::string name;
  OpenReader open;
  Access access;
};

class FileFeaturesBy : public ::testing::TestWithParam<Mechanism> {
 protected:
  void SetUp() override {
    if (GetParam().name.starts_with("ring") && try_io_ring() != 0) GTEST_SKIP() << why_no_io_uring();
  }
  std::unique_ptr<FileFeatures> open(const Dataset& dataset, const ReaderOptions& reader = kFewBuffers) {
    return std::make_unique<FileFeatures>(
        open_row_files(dataset, kX, GetParam().access),
        FileFeaturesOptions{.reader = reader, .open_reader = GetParam().open});
  }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, FileFeaturesBy,
                         ::testing::Values(Mechanism{"ring_direct", ring_alone, Access::kDirect},
                                           Mechanism{"ring_buffered", ring_alone, Access::kBuffered},
                                           Mechanism{"threads_direct", open_read_threads, Access::kDirect},
                                           Mechanism{"threads_buffered", open_read_threads,
                                                     Access::kBuffered}),
                         [](const auto& info) { return info.param.name; });

TEST_P(FileFeaturesBy, AnyIds_GiveTheRowsOfTheArray) {
  const testing::TempFolder folder;
  for (const auto& [nodes, width, partitions] :
       {std::tuple{300, 1, 1}, {300, 17, 3}, {200, 100, 2}, {40, 1'025, 1}, {30, 5'000, 2}}) {
    write_rows(folder.path() / "data", nodes, width, partitions);
    const Dataset dataset(folder.path() / "data");
    const auto mapped = mapped_features(dataset, kX);
    const auto file = open(dataset);
    const std::int64_t row_bytes = 4 * width;
    Ids all;
    for (int v = 0; v < nodes; ++v) all.push_back(v);
    Ids reversed(all.rbegin(), all.rend());
    for (const Ids& ids : {all, reversed, Ids{}, Ids{nodes - 1}, Ids{0, nodes - 1, 0, 0}, Ids(100, nodes / 2),
                           random_ids(nodes, 1'000, 5), random_ids(nodes, 7, 6)}) {
      EXPECT_EQ(rows_of(*file, ids, row_bytes), rows_of(*mapped, ids, row_bytes))
          << ids.size() << " ids, width " << width;
      EXPECT_EQ(rows_of(*file, ids, row_bytes, 3), rows_of(*mapped, ids, row_bytes)) << "in three calls";
    }
  }
}

TEST_P(FileFeaturesBy, ABatchThatIsGivenUp_LeavesNothingBehind) {
  const testing::TempFolder folder;
  write_rows(folder.path() / "data", 500, 64, 1);
  const Dataset dataset(folder.path() / "data");
  const auto mapped = mapped_features(dataset, kX);
  const auto file = open(dataset);
  for (std::uint64_t i = 0; i < 20; ++i) {
    file->prepare(random_ids(500, 200, i));
    const Ids ids = random_ids(500, 50, 100 + i);
    ASSERT_EQ(rows_of(*file, ids, 256), rows_of(*mapped, ids, 256));
  }
  file->prepare(random_ids(500, 200, 1));  // and a source may go with reads under way
}

TEST_P(FileFeaturesBy, SaysHowItReads) {
  const testing::TempFolder folder;
  write_rows(folder.path() / "data", 50, 32, 2);
  const Dataset dataset(folder.path() / "data");
  const auto file = open(dataset);
  EXPECT_EQ(file->means().reader, GetParam().name.starts_with("ring") ? "io_uring" : "threads");
  if (GetParam().access == Access::kBuffered) {
    EXPECT_FALSE(file->means().direct);
  }
}

TEST_P(FileFeaturesBy, FileTruncatedWhileInUse_IsSaidWithItsName) {
  const testing::TempFolder folder;
  write_rows(folder.path() / "data", 500, 64, 1);
  const Dataset dataset(folder.path() / "data");
  const auto file = open(dataset);
  const auto path = folder.path() / "data" / "part-0000" / "nodes" / "node" / "x.npy";
  std::filesystem::resize_file(path, 50'000);
  EXPECT_EQ(rows_of(*file, {0, 1}, 256).size(), 512U) << "rows that are still there";
  try {
    rows_of(*file, {0, 499}, 256);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find(path.string() + " ends at byte 50000"), std::string::npos)
        << error.what();
  }
}

// ---- what is read

TEST(FileFeatures, PagesAreReadOnce_NeighboursTogether) {
  const testing::TempFolder folder;
  write_rows(folder.path() / "data", 1'024, 256, 1);  // a page has 4 rows; the first begins at byte 128
  const Dataset dataset(folder.path() / "data");
  const std::int64_t begin = static_cast<std::int64_t>(open_row_files(dataset, kX).files[0].data_offset());
  FileFeatures file(open_row_files(dataset, kX), {.reader = {.depth = 4, .buffer_bytes = 16 * kReadAlign}});
  Ids ids(50, 8);
  rows_of(file, ids, 1'024);
  EXPECT_EQ(file.counts().file_rows, 50);
  EXPECT_EQ(file.counts().file_bytes, 50 * 1'024);
  EXPECT_EQ(file.counts().reads, 1) << "of a row that is wanted often";
  EXPECT_EQ(file.counts().read_bytes, 4'096);
  rows_of(file, {100, 104, 108, 500}, 1'024);  // three neighbouring pages, and one far away
  EXPECT_EQ(file.counts().reads, 3);
  EXPECT_EQ(file.counts().read_bytes, 5 * 4'096);
  rows_of(file, {100, 112, 128}, 1'024);  // gaps of two pages, which are read along, and of three
  EXPECT_EQ(file.counts().reads, 5);
  EXPECT_EQ(file.counts().read_bytes, (5 + 4 + 1) * 4'096);
  ids.clear();
  for (std::int64_t v = 1'023; v >= 0; --v) ids.push_back(v);
  rows_of(file, ids, 1'024);
  EXPECT_LE(file.counts().reads - 5, 2 + (begin + 1'024 * 1'024) / (15 * 4'096)) << "all, in whole buffers";
}

TEST(FileFeatures, BatchesHaveTheSameBytes_FromMemoryAndFromFiles) {
  const testing::TempFolder folder;
  write_rows(folder.path() / "data", 400, 40, 3);
  const Dataset dataset(folder.path() / "data");
  const NodeList list(dataset.split(0, "train"), {});
  const BatchOptions options{.fanouts = {4, 3}};
  BatchMaker mapped(dataset, list, options);
  BatchMaker file(dataset, list, options, {}, feature_sources(FeaturesFrom::kFile));
  for (std::int64_t first = 0; first < 200; first += 40) {
    const BatchKey key{.seed = 2, .epoch = 1, .first = first, .count = 40};
    EXPECT_EQ(testing::make_block(file, key).view().digest(),
              testing::make_block(mapped, key).view().digest());
  }
}

TEST(FileFeatures, SmallRowsStayMapped) {
  const testing::TempFolder folder;
  testing::TinyGraph graph = testing::ring_graph(10);
  graph.x_width = 16;
  graph.x.assign(160, 1.F);
  graph.y.assign(10, 0);
  testing::write_tiny_dataset(folder.path() / "data", graph);
  const Dataset dataset(folder.path() / "data");
  const auto factory = feature_sources(FeaturesFrom::kFile);
  EXPECT_NE(dynamic_cast<FileFeatures*>(factory(dataset, kX).get()), nullptr) << "64 bytes";
  EXPECT_EQ(dynamic_cast<FileFeatures*>(factory(dataset, {.name = "y"}).get()), nullptr) << "8 bytes";
  EXPECT_EQ(dynamic_cast<FileFeatures*>(feature_sources(FeaturesFrom::kMemory)(dataset, kX).get()), nullptr);
}

// ---- faults

class FileFeaturesFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    write_rows(folder_.path() / "data", 500, 64, 2);
    dataset_.emplace(folder_.path() / "data");
  }
  std::unique_ptr<FileFeatures> open(Faulty::Change change,
                                     std::chrono::milliseconds read_deadline = std::chrono::minutes(1)) {
    return std::make_unique<FileFeatures>(
        open_row_files(*dataset_, kX),
        FileFeaturesOptions{
            .reader = {.depth = 4, .buffer_bytes = 8 * kReadAlign},
            .read_deadline = read_deadline,
            .open_reader = [change](std::span<const int> files, const ReaderOptions& options) {
              return std::make_unique<Faulty>(open_file_reader(files, options), change);
            }});
  }
  std::vector<std::byte> expected(const Ids& ids) {
    return rows_of(*mapped_features(*dataset_, kX), ids, 256);
  }

  const testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

TEST_F(FileFeaturesFaults, ShortReads_AreGoneOnWith) {
  int changed = 0;
  const auto file = open([&](FileReader::Done done) {
    if (done.result > static_cast<std::int64_t>(2 * kReadAlign)) {
      ++changed;
      done.result = done.result / 2 + 13;  // what was read beyond that is not relied on
    }
    return std::optional(done);
  });
  const Ids ids = random_ids(500, 400, 1);
  EXPECT_EQ(rows_of(*file, ids, 256), expected(ids));
  EXPECT_GT(changed, 0);
}

TEST_F(FileFeaturesFaults, ReadsThatArePutOff_AreAskedForAgain) {
  int n = 0;
  const auto file = open([&](FileReader::Done done) {
    if (++n % 3 == 0) done.result = n % 2 == 0 ? -EINTR : -EAGAIN;
    return std::optional(done);
  });
  const Ids ids = random_ids(500, 400, 2);
  EXPECT_EQ(rows_of(*file, ids, 256), expected(ids));
  const auto never = open(
      [](FileReader::Done done) {
        done.result = -EAGAIN;
        return std::optional(done);
      },
      std::chrono::milliseconds(200));
  EXPECT_THROW(rows_of(*never, ids, 256), Error) << "not for ever";
}

TEST_F(FileFeaturesFaults, FailedRead_NamesTheFile_AndTheNextBatchIsWhole) {
  bool fail = true;
  const auto file = open([&](FileReader::Done done) {
    if (fail) done.result = -EIO;
    return std::optional(done);
  });
  const Ids ids = random_ids(500, 300, 3);
  try {
    rows_of(*file, ids, 256);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    const std::string text = error.what();
    EXPECT_NE(text.find("x.npy"), std::string::npos) << text;
    EXPECT_NE(text.find(std::strerror(EIO)), std::string::npos) << text;
  }
  fail = false;
  EXPECT_EQ(rows_of(*file, ids, 256), expected(ids));
}

TEST_F(FileFeaturesFaults, ReadThatStops_ThoughTheFileIsWhole_IsTheDisksFault) {
  const auto file = open([](FileReader::Done done) {
    done.result = 100;
    return std::optional(done);
  });
  try {
    rows_of(*file, {400}, 256);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo) << error.what();
  }
}

TEST_F(FileFeaturesFaults, ReadThatNeverEnds_IsAnErrorAfterTheDeadline) {
  const auto file = open([](FileReader::Done) { return std::optional<FileReader::Done>(); },
                         std::chrono::milliseconds(200));
  try {
    rows_of(*file, {1, 2, 3}, 256);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(error.what()).find("x.npy"), std::string::npos) << error.what();
  }
}

/// From here on the system call fails in this process, as container runtimes have it.
bool forbid_io_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = 4, .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(FileFeaturesFaults, WhereIoUringIsForbidden_ThreadsReadTheSameRows) {
  const Ids ids = random_ids(500, 300, 4);
  const std::vector<std::byte> want = expected(ids);
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid_io_uring()) _exit(10);
    if (why_no_io_uring() != std::strerror(EPERM)) _exit(11);
    FileFeatures file(open_row_files(*dataset_, kX), {});
    if (file.means().reader != "threads") _exit(12);
    _exit(rows_of(file, ids, 256) == want ? 0 : 13);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FileReader, OptionsThatCannotBe_AreRefused) {
  EXPECT_THROW(open_file_reader({}, {.depth = 0}), Error);
  EXPECT_THROW(open_file_reader({}, {.depth = 1'025}), Error);
  EXPECT_THROW(open_file_reader({}, {.buffer_bytes = 4'097}), Error);
  EXPECT_THROW(open_file_reader({}, {.buffer_bytes = 0}), Error);
}

}  // namespace
}  // namespace hopfeed
