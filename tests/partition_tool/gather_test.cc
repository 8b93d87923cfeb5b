// hopfeed-partition gather through the real program: one array of folders of results that the test writes
// itself, row by row, and one line for all that does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "tests/partition_tool/program_fixture.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kGathered = 300, kRowWidth = 3;

float gathered_element(std::int64_t node, std::int64_t column) {
  return static_cast<float>(node) + 0.25F * column;
}
std::int64_t number_key(std::int64_t node) { return node * node - 1000; }
std::string text_key(std::int64_t node) { return std::string(node % 7, 'k') + std::to_string(node); }
/// What a test says of a run.
struct MadeRun {
  std::string keys;  // "", int64, string, uuid
  std::int64_t count = kGathered, width = kRowWidth;
  std::string id = "0123456789abcdef", dtype = "float32";
  std::optional<std::int64_t> chosen = {};  // none: as earlier releases wrote it
};

class Gather : public PartitionProgram {
 protected:
  /// A machine's folder: the rows of these nodes, in shards of 40.
  void write_results(const std::string& name, const std::vector<std::int64_t>& nodes,
                     const MadeRun& run = {}) {
    const fs::path folder = work() / name;
    fs::remove_all(folder);
    fs::create_directories(folder / "embeddings/node");
    json shards = json::array();
    for (std::size_t at = 0; at < nodes.size(); at += 40)
      shards.push_back(
          write_shard(folder, fmt::format("part-0000-{:05}", at),
                      {nodes.begin() + static_cast<std::ptrdiff_t>(at),
                       nodes.begin() + static_cast<std::ptrdiff_t>(std::min(at + 40, nodes.size()))},
                      run));
    json node = {{"name", "node"},
                 {"width", run.width},
                 {"rows", nodes.size()},
                 {"count", run.count},
                 {"keys", run.keys.empty() ? json() : json(run.keys)}};
    if (run.chosen) node["chosen"] = *run.chosen;
    const json manifest = {{"format", "hopfeed-results"},
                           {"version", 1},
                           {"run", run.id},
                           {"dataset", "made"},
                           {"fingerprint", "ffff"},
                           {"dtype", run.dtype},
                           {"file_format", "npy"},
                           {"outputs", {{{"name", "embeddings"}, {"node_types", {node}}}}},
                           {"shards", shards},
                           {"torch", "2"},
                           {"processor", "cpu: made"}};
    write(name + "/manifest.json", json_text(manifest));
  }
  /// `change` has a folder's manifest.
  template <class Change>
  void change_manifest(const std::string& name, const Change& change) {
    json manifest = read_json(name + "/manifest.json");
    change(manifest);
    write(name + "/manifest.json", json_text(manifest));
  }
  template <class T>
  std::vector<T> load(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const NpyArray array(work() / name);
    EXPECT_EQ(array.header().shape, shape) << name;
    const std::span<const T> items = array.as<T>();
    return {items.begin(), items.end()};
  }
  void expect_rows(const std::string& name, const std::vector<std::int64_t>& nodes) const {
    std::vector<float> wanted;
    for (const std::int64_t node : nodes)
      for (std::int64_t column = 0; column < kRowWidth; ++column)
        wanted.push_back(gathered_element(node, column));
    EXPECT_EQ(load<float>(name, {std::ssize(nodes), kRowWidth}), wanted) << name;
  }
  void expect_text_keys(const std::string& stem, const std::vector<std::int64_t>& nodes) const {
    std::string texts;
    std::vector<std::int64_t> begins{0};
    for (const std::int64_t node : nodes) {
      texts += text_key(node);
      begins.push_back(std::ssize(texts));
    }
    EXPECT_EQ(load<std::int64_t>(stem + ".key_offsets.npy", {std::ssize(begins)}), begins);
    const auto bytes = load<std::uint8_t>(stem + ".keys.npy", {std::ssize(texts)});
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), texts);
  }
  /// All nodes in the order of a cut: any.
  static std::vector<std::int64_t> shuffled(std::int64_t count = kGathered) {
    std::vector<std::int64_t> nodes(count);
    std::iota(nodes.begin(), nodes.end(), 0);
    std::ranges::shuffle(nodes, std::mt19937_64(7));
    return nodes;
  }
  static std::vector<std::int64_t> sorted(std::vector<std::int64_t> nodes) {
    std::ranges::sort(nodes);
    return nodes;
  }
  /// Every node at one of two machines.
  void write_two(const MadeRun& run = {}) {
    const std::vector<std::int64_t> nodes = shuffled();
    write_results("one", {nodes.begin(), nodes.begin() + 130}, run);
    write_results("other", {nodes.begin() + 130, nodes.end()}, run);
  }

 private:
  template <class T>
  static json file(const fs::path& folder, const std::string& path, const std::vector<T>& items,
                   const std::vector<std::int64_t>& shape) {
    const NpyWriter::Result made = write_npy<T>(folder / path, items, shape);
    return {{"path", path}, {"bytes", made.bytes}, {"xxh3", fmt::format("{:016x}", made.xxh3)}};
  }
  static json write_shard(const fs::path& folder, const std::string& name,
                          const std::vector<std::int64_t>& nodes, const MadeRun& run) {
    const std::string stem = "embeddings/node/" + name;
    const std::int64_t count = std::ssize(nodes);
    std::vector<float> rows;
    std::vector<std::int64_t> numbers, begins{0};
    std::vector<std::uint8_t> bytes;
    for (const std::int64_t node : nodes) {
      for (std::int64_t column = 0; column < run.width; ++column)
        rows.push_back(gathered_element(node, column));
      numbers.push_back(number_key(node));
      const std::string text = run.keys == "uuid" ? fmt::format("{:016}", node) : text_key(node);
      bytes.insert(bytes.end(), text.begin(), text.end());
      begins.push_back(std::ssize(bytes));
    }
    json files = {{"rows", file<float>(folder, stem + ".npy", rows, {count, run.width})},
                  {"ids", file<std::int64_t>(folder, stem + ".ids.npy", nodes, {count})}};
    if (run.keys == "int64") files["keys"] = file<std::int64_t>(folder, stem + ".keys.npy", numbers, {count});
    if (run.keys == "uuid")
      files["keys"] = file<std::uint8_t>(folder, stem + ".keys.npy", bytes, {count, 16});
    if (run.keys == "string") {
      files["keys"] = file<std::uint8_t>(folder, stem + ".keys.npy", bytes, {std::ssize(bytes)});
      files["key_offsets"] = file<std::int64_t>(folder, stem + ".key_offsets.npy", begins, {count + 1});
    }
    return {
        {"output", "embeddings"}, {"node_type", "node"}, {"partition", 0}, {"rows", count}, {"files", files}};
  }
};

TEST_F(Gather, FoldersOfTwoMachines_BecomeOneArrayInOriginalOrder) {
  write_two();
  const testing::ToolResult result = succeed("gather one other --out all.npy --json all.json");
  EXPECT_NE(result.out.find("all.npy: 300 rows of 'node', float32 of width 3, all nodes in original order"),
            std::string::npos)
      << result.out;
  expect_rows("all.npy", sorted(shuffled()));
  EXPECT_EQ(testing::listing(work()), (std::set<std::string>{"one", "other", "all.npy", "all.json"}));
  const json report = read_json("all.json");
  EXPECT_EQ(report["rows"], kGathered);
  EXPECT_EQ(report["files"], json({"all.npy"}));
  EXPECT_EQ(report["bytes"], fs::file_size(work() / "all.npy"));
  EXPECT_TRUE(report["keys"].is_null());
  const std::string whole = testing::file_bytes(work() / "all.npy");
  for (const char* memory :
       {"1", "13", "100", "1K", "4K"}) {  // rows are written one by one, a few, many at a time
    succeed("gather other one --node-type node --output embeddings --out all.npy --memory " +
            std::string(memory));
    EXPECT_EQ(testing::file_bytes(work() / "all.npy"), whole) << memory;
  }
}

TEST_F(Gather, KeysOfAllKinds_StandInTheOrderOfTheRows) {
  const std::vector<std::int64_t> nodes = sorted(shuffled());
  for (const char* memory : {"", " --memory 50"}) {
    write_two({.keys = "string"});
    succeed("gather one other --out texts.npy --json texts.json" + std::string(memory));
    expect_rows("texts.npy", nodes);
    expect_text_keys("texts", nodes);
    EXPECT_EQ(read_json("texts.json")["files"],
              json({"texts.npy", "texts.key_offsets.npy", "texts.keys.npy"}));
    write_two({.keys = "int64"});
    succeed("gather one other --out numbers.npy" + std::string(memory));
    std::vector<std::int64_t> wanted;
    for (const std::int64_t node : nodes) wanted.push_back(number_key(node));
    EXPECT_EQ(load<std::int64_t>("numbers.keys.npy", {kGathered}), wanted);
    write_two({.keys = "uuid"});
    succeed("gather one other --out uuids.npy" + std::string(memory));
    const auto uuids = load<std::uint8_t>("uuids.keys.npy", {kGathered, 16});
    for (const std::int64_t node : nodes)
      EXPECT_EQ(std::string(uuids.begin() + 16 * node, uuids.begin() + 16 * (node + 1)),
                fmt::format("{:016}", node));
  }
}

TEST_F(Gather, KeysThatOneFolderLacks_AreLeftOutAndThatIsSaid) {
  write_two({.keys = "int64"});
  change_manifest("other", [](json& manifest) { manifest["outputs"][0]["node_types"][0]["keys"] = nullptr; });
  const testing::ToolResult result = succeed("gather one other --out all.npy");
  EXPECT_NE(result.out.find("keys were left out"), std::string::npos) << result.out;
  EXPECT_FALSE(fs::exists(work() / "all.keys.npy"));
}

TEST_F(Gather, RowsOfSomeNodes_InRisingOrderWithTheirIds) {
  const std::vector<std::int64_t> nodes = shuffled();
  const std::vector<std::int64_t> chosen(nodes.begin(), nodes.begin() + 90);
  write_results("one", {chosen.begin(), chosen.begin() + 50}, {.keys = "string"});
  write_results("other", {chosen.begin() + 50, chosen.end()}, {.keys = "string"});
  refuse("gather one other --out some.npy",
         "and of 209 others; name the folders of all machines, or give --some");
  succeed("gather one other --out some.npy --some");
  expect_rows("some.npy", sorted(chosen));
  EXPECT_EQ(load<std::int64_t>("some.ids.npy", {90}), sorted(chosen));
  expect_text_keys("some", sorted(chosen));
  write_two();
  succeed("gather one other --out all.npy --some");
  EXPECT_FALSE(fs::exists(work() / "all.ids.npy")) << "rows of all nodes need no ids";
  refuse("gather one other --out some.npy", "some.ids.npy is there, of other results");
}

TEST_F(Gather, ManifestsSayOfHowManyNodesThereAreRows) {
  const std::vector<std::int64_t> nodes = shuffled();
  const std::vector<std::int64_t> chosen(nodes.begin(), nodes.begin() + 90);
  write_results("one", {chosen.begin(), chosen.begin() + 50}, {.chosen = 90});
  write_results("other", {chosen.begin() + 50, chosen.end()}, {.chosen = 90});
  refuse("gather one --out some.npy",
         "one: there are rows of 50 nodes of 'node', and 90 were chosen; name the folders of all machines");
  succeed("gather one other --out some.npy");
  expect_rows("some.npy", sorted(chosen));
  EXPECT_EQ(load<std::int64_t>("some.ids.npy", {90}), sorted(chosen));
  succeed("gather one --out part.npy --some");
  expect_rows("part.npy", sorted({chosen.begin(), chosen.begin() + 50}));
  change_manifest("one", [](json& manifest) { manifest["signature"] = "90 nodes of type 0: a"; });
  change_manifest("other", [](json& manifest) { manifest["signature"] = "90 nodes of type 0: b"; });
  refuse("gather one other --out twice.npy",
         "the signature is 90 nodes of type 0: a there and 90 nodes of type 0: b");
  write_results("one", chosen, {.chosen = 50});
  refuse("gather one --out twice.npy", "manifest.json");
  write_two({.chosen = kGathered});
  refuse("gather one --out all.npy", "one: there is no row of node ");
  succeed("gather one other --out all.npy");
  EXPECT_FALSE(fs::exists(work() / "all.ids.npy"));
}

TEST_F(Gather, NodesThatAreMissingOrThereTwice_AreNamedWithTheFolder) {
  write_two();
  refuse("gather one --out all.npy", "one: there is no row of node ");
  refuse("gather one one other --out all.npy",
         "is there twice, in one/embeddings/node/part-0000-00000.ids.npy and in one/");
  std::vector<std::int64_t> nodes = sorted(shuffled());
  nodes[17] = 16;
  write_results("wrong", nodes);
  refuse("gather wrong --out all.npy",
         "node 16 of 'node' is there twice, in wrong/embeddings/node/part-0000-00000.ids.npy and in wrong/");
  nodes.erase(nodes.begin() + 17);
  write_results("less", nodes);
  refuse("gather less --out all.npy", "less: there is no row of node 17 of 'node'; name the folders");
  nodes.insert(nodes.begin() + 17, kGathered);
  write_results("beyond", nodes);
  refuse("gather beyond --out all.npy", "it has node 300, and there are 300 of 'node'");
}

TEST_F(Gather, FoldersOfOtherRuns_AreRefused) {
  write_two();
  const auto with = [&](const char* field, const json& value, const std::string& part) {
    const std::string manifest = testing::file_bytes(work() / "other/manifest.json");
    change_manifest("other", [&](json& changed) { changed[field] = value; });
    refuse("gather one other --out all.npy", part);
    write("other/manifest.json", manifest);
  };
  with("run", "another",
       "one and other are not of one run: the run is 0123456789abcdef there and another here");
  with("fingerprint", "eeee", "the dataset's fingerprint is ffff there and eeee here");
  with("dtype", "float16", "the type of the rows is float32 there and float16 here");
  write_results("other", {1, 2}, {.width = 4});
  refuse("gather one other --out all.npy", "the width is 3 there and 4 here");
  write_results("other", {1, 2}, {.count = 301});
  refuse("gather one other --out all.npy", "the number of nodes is 300 there and 301 here");
}

TEST_F(Gather, WhatIsNoResult_IsOneLine) {
  write_two();
  refuse("gather --out all.npy", "name the folders of results");
  refuse("gather one", "--out is required");
  fs::create_directory(work() / "empty");
  refuse("gather one empty --out all.npy", "empty holds no results: there is no manifest.json");
  refuse("gather one nowhere --out all.npy", "nowhere holds no results");
  refuse("gather one other --out all.npy --node-type z", "one has no node type 'z'; it has node");
  refuse("gather one other --out all.npy --output z", "one has no output 'z'; it has embeddings");
  refuse("gather one other --out all.bin", "--out is all.bin; name a file FILE.npy");
  refuse("gather one other --out one/embeddings/all.npy", "lies in the results one");
  refuse("gather one other --out nowhere/all.npy", "nowhere/all.npy", 2);
  const auto changed = [&](const auto& change, const std::string& part) {
    const std::string manifest = testing::file_bytes(work() / "one/manifest.json");
    change_manifest("one", change);
    refuse("gather one other --out all.npy", part);
    write("one/manifest.json", manifest);
  };
  changed([](json& m) { m["version"] = 2; }, "one/manifest.json has version 2; this hopfeed reads 1");
  changed([](json& m) { m["format"] = "x"; }, "it is no manifest of results");
  changed([](json& m) { m["file_format"] = "parquet"; },
          "one holds Parquet, and gather takes npy: write the results as npy, or");
  changed([](json& m) { m["shards"].erase(0); }, "the shards of 'node' have 90 rows and not 130");
  changed([](json& m) { m["shards"][0]["files"]["rows"]["path"] = "../x.npy"; }, "is no file of the folder");
  changed([](json& m) { m["shards"][0]["files"].erase("ids"); }, "the manifest has no file of ids");
  changed(
      [](json& m) {
        m["outputs"][0]["node_types"].push_back(m["outputs"][0]["node_types"][0]);
        m["outputs"][0]["node_types"][1]["name"] = "paper";
      },
      "one has the node types node, paper; choose one (--node-type)");
  write("one/manifest.json", "{");
  refuse("gather one other --out all.npy", "it is no manifest of results, or damaged");
}

TEST_F(Gather, DamagedShards_AreNamedAndNothingIsWritten) {
  write_two({.keys = "string"});
  const std::string stem = "other/embeddings/node/part-0000-00040";
  for (const std::string kind : {".npy", ".ids.npy", ".keys.npy", ".key_offsets.npy"}) {
    const fs::path path = work() / (stem + kind);
    const std::string whole = testing::file_bytes(path);
    std::string bytes = whole;
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    testing::write_bytes(path, bytes);
    refuse("gather one other --out all.npy", stem + kind + " is damaged: its checksum is another");
    testing::write_bytes(path, whole.substr(0, whole.size() - 1));
    refuse("gather one other --out all.npy", fmt::format("{}{} has {} bytes and was written with {}", stem,
                                                         kind, whole.size() - 1, whole.size()));
    fs::remove(path);
    refuse("gather one other --out all.npy", stem + kind + " is gone");
    testing::write_bytes(path, whole);
  }
  succeed("gather one other --out all.npy");
  const auto before = testing::files_of(work());
  testing::write_bytes(work() / (stem + ".npy"), "no array");
  refuse("gather one other --out all.npy", "part-0000-00040.npy has 8 bytes");
  for (const auto& [path, bytes] : before)
    if (path.find(stem) == std::string::npos) {
      EXPECT_EQ(testing::file_bytes(work() / path), bytes) << path;
    }
}

TEST_F(Gather, DiskWithoutRoom_IsSaidBeforeRowsAreWritten) {
  write_two();
  refuse_shell("bash -c 'ulimit -f 3; exec {} gather one other --out all.npy'", "(ulimit -f)", 1);
}

TEST_F(Gather, NoNodesAtAll_AreAnArrayWithoutRows) {
  write_results("none", {}, {.keys = "string", .count = 0});
  succeed("gather none --out none.npy");
  expect_rows("none.npy", {});
  expect_text_keys("none", {});
}

}  // namespace
}  // namespace hopfeed
