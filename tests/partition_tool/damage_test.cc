// F26: every file of a small dataset cut short, with bits flipped, swapped or missing: open or verify refuses
// and names the file, and for the manifest the field.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "tests/partition_tool/made_dataset.h"
#include "tests/support/processes.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

/// Other bytes in a file's place, for a scope. They lie in memory: a disk would make a flush of each of
/// thousands.
class Replaced {
 public:
  Replaced(const fs::path& path, const std::string& bytes)
      : path_(path), away_(path.string() + ".away"), fd_(memfd_create("damaged", MFD_CLOEXEC)) {
    EXPECT_EQ(write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    fs::rename(path_, away_);
    fs::create_symlink("/proc/self/fd/" + std::to_string(fd_), path_);
  }
  ~Replaced() {
    fs::rename(away_, path_);
    close(fd_);
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  fs::path path_, away_;
  int fd_;
};

class Damage : public ::testing::Test {
 protected:
  Damage() {
    const RawGraph graph = testing::raw_graph_of(
        testing::random_graph({.num_nodes = 60, .num_edges = 1'500, .x_width = 40, .num_train = 30}));
    std::vector<std::int32_t> partition_of(60);
    for (int v = 0; v < 60; ++v) partition_of[v] = v % 2;
    meta_ =
        testing::write_dataset(folder_.path() / "d", graph, {.partitions = 2, .partition_of = partition_of});
  }
  /// What open or verify complains about; empty where both are content.
  std::string complaint() const {
    try {
      testing::verify(folder_.path() / "d");
      return "";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kVersion ||
                  error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kNotFound)
          << error.what();
      return error.what();
    }
  }
  /// Puts other bytes in a file's place for the time of one complaint.
  std::string complaint_with(const std::string& path, const std::string& bytes) const {
    const Replaced replaced(folder_.path() / "d" / path, bytes);
    return complaint();
  }
  /// What opening alone complains about.
  std::string refusal() const {
    try {
      const Dataset dataset(folder_.path() / "d");
      return "";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kVersion ||
                  error.code() == ErrorCode::kUnsupported)
          << error.what();
      return error.what();
    }
  }
  std::string refusal_with(const std::string& path, const std::string& bytes) const {
    const Replaced replaced(folder_.path() / "d" / path, bytes);
    return refusal();
  }
  std::string refusal_of_meta(const std::string& text) const { return refusal_with("meta.json", text); }
  const TempFolder folder_;
  DatasetMeta meta_;
};

TEST_F(Damage, AWholeDatasetIsAccepted) { EXPECT_EQ(complaint(), ""); }

/// Which bits of a byte are flipped, one after the other.
std::vector<int> bits_of(std::size_t at) {
  if (testing::long_tests()) return {0, 1, 2, 3, 4, 5, 6, 7};
  return {static_cast<int>(at % 8)};
}
void say_how_many_bits() {
  std::printf("%s\n",
              testing::long_tests() ? "every bit" : "one bit of each byte (all with HOPFEED_LONG_TESTS=1)");
}

// F26: opening, which reads no more than the headers, notices each bit of them but the minor version of the
// format, which NumPy has never used; verify notices that too.
TEST_F(Damage, EveryFlippedBitOfAHeaderIsNoticedAndNamed) {
  say_how_many_bits();
  for (const auto& [path, file] : meta_.files) {
    const fs::path full = folder_.path() / "d" / path;
    const std::string good = testing::file_bytes(full);
    const std::size_t header = NpyArray(full).header().data_offset;
    for (std::size_t at = 0; at < header; ++at) {
      for (const int bit : bits_of(at)) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        const std::string said = at == 7 ? complaint_with(path, bad) : refusal_with(path, bad);
        ASSERT_NE(said.find(path), std::string::npos)
            << path << ", bit " << bit << " of byte " << at << ": " << said;
      }
    }
  }
}

// F26
TEST_F(Damage, EveryTruncationOfAHeaderAndAtEachPageIsNoticedAndNamed) {
  for (const auto& [path, file] : meta_.files) {
    const fs::path full = folder_.path() / "d" / path;
    const std::string good = testing::file_bytes(full);
    const std::size_t header = NpyArray(full).header().data_offset;
    for (std::size_t length = 0; length < good.size();
         length += length < header ? 1 : 4'096 - length % 4'096) {
      const std::string said = refusal_with(path, good.substr(0, length));
      ASSERT_NE(said.find(path), std::string::npos) << path << " cut to " << length << ": " << said;
    }
  }
}

// F26
TEST_F(Damage, BigEndianAndOtherTypesAreRefusedByName) {
  const std::string path = "part-0000/nodes/node/hotness.npy";
  const std::string good = testing::file_bytes(folder_.path() / "d" / path);
  for (const char* type : {"'>f8'", "'=f8'", "'<i8'", "'<f4'", "'|O8'", "'|S8'", "'<U2'", "[('x'"}) {
    std::string bad = good;
    bad.replace(bad.find("'<f8'"), 5, type);
    const std::string said = refusal_with(path, bad);
    EXPECT_NE(said.find(path), std::string::npos) << type << ": " << said;
  }
}

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

// F26: who opens a pipe for reading waits for its writer, unless asked not to.
TEST_F(Damage, PipeInPlaceOfAFile_IsRefusedByNameAndNobodyWaits) {
  for (const char* path : {"meta.json", "part-0000/nodes/node/y.npy"}) {
    const fs::path at = folder_.path() / "d" / path;
    fs::rename(at, folder_.path() / "away");
    ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0);
    try {
      const Dataset dataset(folder_.path() / "d");
      ADD_FAILURE() << path << " was opened";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), at.string() + " is not a regular file");
    }
    fs::rename(folder_.path() / "away", at);
  }
}

// ---- the manifest

TEST_F(Damage, EveryTruncationOfTheManifestIsNoticed) {
  const std::string good = testing::file_bytes(folder_.path() / "d/meta.json");
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(refusal_of_meta(good.substr(0, length)), "") << length;
  EXPECT_NE(refusal_of_meta(good + " "), "");
}

TEST_F(Damage, EveryFlippedBitOfTheManifestIsNoticed) {
  say_how_many_bits();
  const std::string good = testing::file_bytes(folder_.path() / "d/meta.json");
  EXPECT_EQ(refusal_of_meta(good), "");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : bits_of(at)) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_NE(refusal_of_meta(bad), "") << "bit " << bit << " of byte " << at;
    }
  }
}

using nlohmann::json;

/// Calls `visit(path, key)` for each field of a manifest, those of nested objects too.
void for_each_field(const json& value, const json::json_pointer& path,
                    const std::function<void(const json::json_pointer&, const std::string&)>& visit) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      visit(path / key, key);
      for_each_field(item, path / key, visit);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) for_each_field(value[i], path / i, visit);
  }
}

// A manifest whose checksum is right and whose content is not: by a program that writes it wrongly, or by
// malice.
TEST_F(Damage, EveryFieldOfTheManifestThatIsMissingOrOfAnotherKind_IsNamed) {
  const json good = parse_json(testing::file_bytes(folder_.path() / "d/meta.json"));
  int fields = 0;
  for_each_field(good, json::json_pointer(), [&](const json::json_pointer& path, const std::string& key) {
    if (key == "checksum") return;
    ++fields;
    json missing = good;
    missing[path.parent_pointer()].erase(key);
    const json::json_pointer parent = path.parent_pointer();
    const bool a_list = !parent.empty() && (parent.back() == "files" || parent.back() == "splits");
    // An entry less is another manifest, not a broken one; and so is one of before there were ranked lists.
    if (!a_list && key != "remote_rows") {
      EXPECT_NE(refusal_of_meta(seal_meta(json_text(missing, 1) + "\n")).find("'" + key + "'"),
                std::string::npos)
          << path << " is missing: " << refusal_of_meta(seal_meta(json_text(missing, 1) + "\n"));
    }
    for (const json& wrong :
         {json(nullptr), json(-7), json(1e300), json(true), json("?"), json::array({1}), json::object()}) {
      if (wrong.type() == good[path].type() || (wrong.is_number() && good[path].is_number())) continue;
      json bad = good;
      bad[path] = wrong;
      const std::string refusal = refusal_of_meta(seal_meta(json_text(bad, 1) + "\n"));
      EXPECT_NE(refusal.find(key), std::string::npos) << path << " = " << wrong << ": " << refusal;
    }
  });
  EXPECT_GT(fields, 80);
}

TEST_F(Damage, NumbersOfTheManifestThatCannotBe_AreNamed) {
  const json good = parse_json(testing::file_bytes(folder_.path() / "d/meta.json"));
  const auto refused = [&](const char* path, const json& value, const char* part) {
    json bad = good;
    bad[json::json_pointer(path)] = value;
    const std::string refusal = refusal_of_meta(seal_meta(json_text(bad, 1) + "\n"));
    EXPECT_NE(refusal.find(part), std::string::npos) << path << " = " << value << ": " << refusal;
  };
  for (const json& huge : {json(INT64_MAX), json(UINT64_MAX), json(INT64_MIN), json(-1), json(1.5)}) {
    refused("/partitions", huge, "'partitions'");
    refused("/node_types/0/count", huge, "'count'");
    refused("/node_types/0/num_classes", huge, "'num_classes'");
    refused("/node_types/0/partition_offsets/1", huge, "'partition_offsets'");
    refused("/node_types/0/attrs/0/stride_bytes", huge, "'stride_bytes'");
    refused("/node_types/0/attrs/0/shape/0", huge, "'shape'");
    refused("/node_types/0/splits/train", huge, "'train'");
    refused("/edge_types/0/count", huge, "'count'");
    refused("/edge_types/0/partition_edges/0", huge, "'partition_edges'");
    refused("/cut/batch_size", huge, "'batch_size'");
  }
  refused("/partitions", 3, "partition_offsets that do not match");
  refused("/node_types/0/partition_offsets", json::array({0, 61, 60}), "do not rise");
  refused("/edge_types/0/partition_edges", json::array({400, 1}), "do not add up");
  refused("/node_types/0/attrs/0/stride_bytes", 3, "stride");
  refused("/edge_types/0/src", "nobody", "unknown node type 'nobody'");
  refused("/node_types/0/name", "../up", "no valid name");
  refused("/fingerprint", "xyz", "32 hex digits");
  refused("/files", json::object(), "'files' does not list");
  refused("/format", "other-dataset", "'format'");
}

// F30: one above each limit.
TEST_F(Damage, OneAboveEachLimitOfTheManifest_IsNamed) {
  const std::string text = testing::file_bytes(folder_.path() / "d/meta.json");
  const json good = parse_json(text);
  const auto refused = [&](const char* path, const json& value, const std::string& part) {
    json bad = good;
    bad[json::json_pointer(path)] = value;
    const std::string refusal = refusal_of_meta(seal_meta(json_text(bad, 1) + "\n"));
    EXPECT_NE(refusal.find(part), std::string::npos) << path << ": " << refusal.substr(0, 300);
  };
  const auto copies = [&](const char* path, std::int64_t count) {
    return json(std::vector<json>(static_cast<std::size_t>(count), good[json::json_pointer(path)]));
  };
  refused("/partitions", kMaxPartitions + 1, "'partitions'");
  refused("/node_types", copies("/node_types/0", kMaxTypes + 1), "'node_types'");
  refused("/edge_types", copies("/edge_types/0", kMaxTypes + 1), "'edge_types'");
  refused("/node_types/0/attrs", copies("/node_types/0/attrs/0", kMaxAttrs + 1), "'attrs'");
  refused("/node_types/0/attrs/0/shape", json::array({kMaxRowBytes + 1}), "'shape'");
  refused("/node_types/0/attrs/0/stride_bytes", kMaxRowBytes + 1, "'stride_bytes'");
  std::ofstream(folder_.path() / "d/meta.json") << text << std::string(kMaxMetaBytes + 1 - text.size(), ' ');
  try {
    const Dataset dataset(folder_.path() / "d");
    ADD_FAILURE() << "it was opened";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("at most 67108864 are read"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hopfeed
