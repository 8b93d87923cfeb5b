// Every file of a small dataset cut short and with bits flipped: open or verify refuses and names the file.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "tests/partition_tool/made_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

class Damage : public ::testing::Test {
 protected:
  Damage() {
    const RawGraph graph = testing::raw_graph_of(
        testing::random_graph({.num_nodes = 60, .num_edges = 400, .x_width = 4, .num_train = 30}));
    std::vector<std::int32_t> partition_of(60);
    for (int v = 0; v < 60; ++v) partition_of[v] = v % 2;
    meta_ =
        testing::write_dataset(folder_.path() / "d", graph, {.partitions = 2, .partition_of = partition_of});
  }
  /// What open or verify complains about; empty where both are content.
  std::string complaint() const {
    try {
      Dataset(folder_.path() / "d").verify([](std::uint64_t, std::uint64_t) {});
      return "";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kVersion ||
                  error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kNotFound)
          << error.what();
      return error.what();
    }
  }
  /// Replaces the file's bytes for the time of one complaint.
  std::string complaint_with(const std::string& path, const std::string& bytes) const {
    const fs::path file = folder_.path() / "d" / path;
    const std::string good = testing::file_bytes(file);
    std::ofstream(file, std::ios::binary) << bytes;
    const std::string said = complaint();
    std::ofstream(file, std::ios::binary) << good;
    return said;
  }
  const TempFolder folder_;
  DatasetMeta meta_;
};

TEST_F(Damage, AWholeDatasetIsAccepted) { EXPECT_EQ(complaint(), ""); }

TEST_F(Damage, EveryFlippedByteOfAnArrayIsNoticedAndNamed) {
  for (const auto& [path, file] : meta_.files) {
    const std::string good = testing::file_bytes(folder_.path() / "d" / path);
    for (std::size_t at = 0; at < good.size();
         at += at < 160 ? 7 : 53) {  // header and first elements more closely
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      EXPECT_NE(complaint_with(path, bad).find(path), std::string::npos)
          << path << " at " << at << ": " << complaint_with(path, bad);
    }
  }
}

TEST_F(Damage, EveryTruncationOfAnArrayIsNoticedAndNamed) {
  for (const auto& [path, file] : meta_.files) {
    const std::string good = testing::file_bytes(folder_.path() / "d" / path);
    for (std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{64}, std::size_t{127},
                               std::size_t{128}, good.size() / 2, good.size() - 1}) {
      if (length >= good.size()) continue;
      EXPECT_NE(complaint_with(path, good.substr(0, length)).find(path), std::string::npos)
          << path << " cut to " << length;
    }
    EXPECT_NE(complaint_with(path, good + "x").find(path), std::string::npos) << path << " with a byte more";
  }
}

TEST_F(Damage, MissingAndSwappedFilesAreNamed) {
  for (const auto& [path, file] : meta_.files) {
    const fs::path at = folder_.path() / "d" / path;
    fs::rename(at, folder_.path() / "away");
    EXPECT_NE(complaint().find(path), std::string::npos) << path;
    fs::rename(folder_.path() / "away", at);
  }
  const std::string other = testing::file_bytes(folder_.path() / "d/part-0001/nodes/node/y.npy");
  EXPECT_NE(complaint_with("part-0000/nodes/node/y.npy", other).find("part-0000/nodes/node/y.npy"),
            std::string::npos);
}

TEST_F(Damage, EveryTruncationOfTheManifestIsNoticed) {
  const std::string good = testing::file_bytes(folder_.path() / "d/meta.json");
  for (std::size_t length = 0; length + 1 < good.size(); length += 37) {  // the last byte is a line break
    EXPECT_NE(complaint_with("meta.json", good.substr(0, length)).find("meta.json"), std::string::npos)
        << length;
  }
}

// The manifest carries no checksum of itself. Every number and name in it that describes the arrays is held
// against them.
TEST_F(Damage, FlippedBytesInTheManifestNeverCrash) {
  const std::string good = testing::file_bytes(folder_.path() / "d/meta.json");
  int refused = 0, tried = 0;
  for (std::size_t at = 0; at < good.size(); at += 5) {
    for (int bit : {0, 3, 6}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      refused += complaint_with("meta.json", bad).empty() ? 0 : 1;
      ++tried;
    }
  }
  EXPECT_GT(refused, tried / 2);
}

}  // namespace
}  // namespace hopfeed
