// Commands say what memory they want before they take it: what is told is 0.8 to 1.5 of the program's peak,
// mapped files apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/dataset/npy.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNodes = 1'000'000, kEdges = 3'000'000;

template <class T>
void write_npy(const fs::path& path, ElementType type, const std::vector<std::int64_t>& shape,
               const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file << npy_head(npy_descr(type), shape);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

/// Bytes of a process that are no file's, at the moment; 0 where there is no such process.
std::uint64_t anonymous_bytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && (name == "RssAnon:" || name == "RssShmem:")) sum += kib << 10;
  }
  return sum;
}

struct ToolRun {
  std::uint64_t peak = 0, told = 0;  // told: in its report
  std::string first_line;
};

class MemoryTold : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    std::mt19937 random(1);
    std::vector<std::int32_t> index(2 * kEdges), train;
    for (std::int32_t& id : index) id = static_cast<std::int32_t>(random() % kNodes);
    for (std::int32_t v = 0; v < kNodes; v += 7) train.push_back(v);
    write_npy(path("index.npy"), ElementType::kInt32, {2, kEdges}, index);
    write_npy(path("x.npy"), ElementType::kFloat32, {kNodes, 4}, std::vector<float>(4 * kNodes));
    write_npy(path("train.npy"), ElementType::kInt32, {std::ssize(train)}, train);
    import_ = run({"import", "numpy", path("whole"), "--edge-index", path("index.npy"), "--features",
                   path("x.npy"), "--train", path("train.npy")});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string path(const std::string& name) { return (folder_->path() / name).string(); }

  static ToolRun run(const std::vector<std::string>& words) {
    std::vector<std::string> command{testing::program("hopfeed-partition")};
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"--threads", "2", "--json", path("report.json")});
    testing::BackgroundProgram program(command);
    ToolRun run;
    int code = -1;
    while ((code = program.wait(std::chrono::milliseconds(2))) == -1)
      run.peak = std::max(run.peak, anonymous_bytes(program.pid()));
    EXPECT_EQ(code, 0) << words[0];
    run.first_line = program.read_line();
    std::ifstream report(path("report.json"));
    run.told = nlohmann::json::parse(report).at("memory_bytes");
    return run;
  }
  static void expect_told(const ToolRun& run, const std::string& what) {
    EXPECT_EQ(run.first_line.find(what + " wants about "), 0U) << run.first_line;
    if (testing::kSanitized) return;  // which keep what was freed, and more beside
    EXPECT_GE(static_cast<double>(run.told), 0.8 * static_cast<double>(run.peak));
    EXPECT_LE(static_cast<double>(run.told), 1.5 * static_cast<double>(run.peak));
  }

  inline static testing::TempFolder* folder_ = nullptr;
  inline static ToolRun import_;
};

TEST_F(MemoryTold, IsReadWhileTheWorkGoesOn_ThoughItIsNoTerminal) {
  testing::BackgroundProgram program({testing::program("hopfeed-partition"), "generate", path("slow"),
                                      "--nodes", "2000000", "--edges", "20000000", "--features", "1",
                                      "--classes", "2", "--seed", "1"});
  EXPECT_EQ(program.read_line().find("the generated graph wants about "), 0U);
  EXPECT_EQ(program.wait(std::chrono::milliseconds(1)), -1) << "it was said at the end";
}

TEST_F(MemoryTold, ByImport_IsItsPeak) { expect_told(import_, "importing " + path("index.npy")); }

TEST_F(MemoryTold, ByImportOfCsv_IsItsPeak) {
  constexpr std::int64_t kFewer = 500'000, kFewerEdges = 2'000'000;
  const fs::path raw = path("ogb/raw"), split = path("ogb/split/random");
  fs::create_directories(raw);
  fs::create_directories(split);
  std::ofstream(raw / "num-node-list.csv") << kFewer << "\n";
  std::ofstream(raw / "num-edge-list.csv") << kFewerEdges << "\n";
  for (const char* name : {"train.csv", "valid.csv", "test.csv"}) std::ofstream(split / name) << "1\n2\n";
  std::ofstream edges(raw / "edge.csv"), features(raw / "node-feat.csv"), labels(raw / "node-label.csv");
  std::mt19937 random(1);
  for (std::int64_t e = 0; e < kFewerEdges; ++e)
    edges << random() % kFewer << "," << random() % kFewer << "\n";
  for (std::int64_t v = 0; v < kFewer; ++v) {
    features << "0.5,1,2,3\n";
    labels << v % 5 << "\n";
  }
  edges.close(), features.close(), labels.close();
  expect_told(run({"import", "ogb", path("csv"), "--raw", path("ogb")}), "importing " + path("ogb"));
}

TEST_F(MemoryTold, ByPartition_IsItsPeak) {
  expect_told(run({"partition", path("whole"), path("cut"), "--parts", "3", "--method", "random"}),
              "cutting " + path("whole"));
}

/// How tune looks at the graph: its measurements of the machine are short.
std::vector<std::string> tune_words(const std::string& dataset) {
  return {"tune", dataset, "--fanouts", "5,5", "--batches", "10", "--seconds", "0.05"};
}

TEST_F(MemoryTold, ByTune_IsItsPeak) {
  std::vector<std::string> words = tune_words(path("whole"));
  words.insert(words.end(), {"--policies", "vip"});
  expect_told(run(words), "tuning " + path("whole"));
}

TEST_F(MemoryTold, ByTuneWithEvictions_IsItsPeak) {
  std::vector<std::string> words = tune_words(path("whole"));
  words.insert(words.end(), {"--policies", "stored", "--evictions"});
  expect_told(run(words), "tuning " + path("whole"));
}

}  // namespace
}  // namespace hopfeed
