// --infer as a user gives it: behind a training and alone, for node and link models, what it leaves, what it
// says to bad input, and the same files after kills at any moment.
#include <sched.h>
#include <signal.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "core/dataset/npy.h"
#include "results/run_folder.h"
#include "tests/support/dataset_files.h"
#include "tests/support/typed_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/taste_graph.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/checkpoint.h"
#include "trainer/model.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

/// The files of a folder of results but its lock.
std::map<std::string, std::string> results_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files = testing::files_of(folder);
  files.erase(".lock");
  return files;
}

class InferenceProgram : public testing::WatchedTest<300> {
 protected:
  InferenceProgram() {
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 9'000, .num_edges = 40'000, .x_width = 8, .num_train = 2'000});
    testing::write_tiny_dataset(path("data"), graph, testing::random_cut(graph, 2, 1));
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::string text(const std::string& name) const { return path(name).string(); }
  Words nodes(const Words& more) const {
    Words words{program("node_classification"),
                "--data",
                text("data"),
                "--fanouts",
                "4,3",
                "--hidden",
                "16",
                "--no-baseline"};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(words, "--epochs") == words.end()) words.insert(words.end(), {"--epochs", "1"});
    return words;
  }
  void train() {
    const ProgramResult result = run_program(nodes({"--out", text("out")}));
    ASSERT_EQ(result.status, 0) << result.output;
  }
  Words infer(const Words& more) const {
    Words words{
        program("node_classification"), "--data", text("data"), "--infer", "--model", text("out/model.pt")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TempFolder folder_;
};

TEST_F(InferenceProgram, BehindATrainingAndAloneItWritesTheSameFiles) {
  const ProgramResult behind =
      run_program(nodes({"--out", text("out"), "--infer", "--write",
                         "embeddings=" + text("e1") + ",scores=" + text("s1") + ",classes=" + text("c1")}));
  ASSERT_EQ(behind.status, 0) << behind.output;
  const nlohmann::json summary = read_json(path("out/summary.json"));
  EXPECT_EQ(summary.at("inference").at("written").at("scores").at("rows"), 9'000);
  const ProgramResult alone = run_program(infer(
      {"--write", "scores=" + text("s2") + ",embeddings=" + text("e2"), "--json", text("report.json")}));
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_EQ(read_json(path("report.json")).at("inference").at("run"), summary.at("inference").at("run"));
  EXPECT_EQ(results_in(path("e1")), results_in(path("e2")));
  EXPECT_EQ(results_in(path("s1")), results_in(path("s2")));
  EXPECT_EQ(results_in(path("s1")).size(), 2U * 2 + 1) << "rows and ids of two partitions, and the manifest";
  const NpyArray classes(path("c1/classes/node/part-0000-00000.npy")),
      scores(path("s1/scores/node/part-0000-00000.npy"));
  for (std::int64_t i = 0; i < classes.header().shape[0]; ++i) {
    const float* const row = scores.as<float>().data() + i * 4;
    ASSERT_EQ(classes.as<std::int64_t>()[static_cast<std::size_t>(i)], std::max_element(row, row + 4) - row);
  }
}

TEST_F(InferenceProgram, StaysOnTheCoresItIsGiven_WithTheThreadsItIsGiven) {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  const auto threads = [&](const std::string& report) {
    return read_json(path(report)).at("inference").at("threads").get<int>();
  };
  const ProgramResult behind =
      run_program(nodes({"--out", text("out"), "--cores", std::to_string(core), "--threads", "2", "--infer",
                         "--write", "scores=" + text("s1")}));
  ASSERT_EQ(behind.status, 0) << behind.output;
  EXPECT_EQ(threads("out/summary.json"), 1);
  const auto alone = [&](const Words& more) {
    std::filesystem::remove_all(path("s2"));
    Words words = infer({"--write", "scores=" + text("s2"), "--json", text("report.json")});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run_program(alone({})).status, 0);
  EXPECT_EQ(threads("report.json"), CPU_COUNT(&all));
  ASSERT_EQ(run_program(alone({"--threads", "3"})).status, 0);
  EXPECT_EQ(threads("report.json"), 3);
  expect_refused(run_program(alone({"--cores", "1023"})), "node_classification",
                 "--cores: this process may not use core 1023");
  testing::BackgroundProgram running(alone({"--cores", std::to_string(core)}));
  bool seen = false;
  for (int status = -1; status < 0; status = running.wait(1ms)) {
    std::ifstream lines("/proc/" + std::to_string(running.pid()) + "/status");
    for (std::string line; std::getline(lines, line);)
      seen = seen || line == "Cpus_allowed_list:\t" + std::to_string(core);
  }
  EXPECT_TRUE(seen || CPU_COUNT(&all) == 1) << "it ran on other cores too";
  EXPECT_EQ(threads("report.json"), 1);
  EXPECT_EQ(results_in(path("s1")), results_in(path("s2")));
}

// F73
TEST_F(InferenceProgram, OneThatIsFinishedLeavesTheFolderOfLayersToTheNext) {
  train();
  const Words command = infer({"--write", "scores=" + text("s"), "--results", text("layers")});
  ASSERT_EQ(run_program(command).status, 0);
  const auto files = results_in(path("s"));
  const LayerName name{.table = "h1", .node_type = "node"};
  constexpr RunId kNext{.high = 1, .low = 2};
  {
    const RunFolder next(path("layers"), kNext, "{}");
    next.layers().write(name, {.partition = 0, .first = 0, .count = 1, .row_bytes = 4},
                        std::vector<std::byte>(4));
  }
  const ProgramResult again = run_program(command);
  EXPECT_EQ(again.status, 0) << again.output;
  EXPECT_TRUE(layers_of(path("layers"), kNext).has(name, 0, 0));
  EXPECT_EQ(results_in(path("s")), files);
}

TEST_F(InferenceProgram, SharesHalvesAndSomeNodes) {
  train();
  const std::vector<std::int64_t> wanted{17, 3, 8'999};
  write_npy<std::int64_t>(path("nodes.npy"), wanted, {3});
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s"), "--softmax", "--nodes", text("nodes.npy")}))
                .status,
            0);
  std::map<std::int64_t, double> sums;
  for (const char* part : {"0000", "0001"}) {
    const std::string base = "s/scores/node/part-" + std::string(part) + "-00000";
    const NpyArray rows(path(base + ".npy")), ids(path(base + ".ids.npy"));
    for (std::size_t i = 0; i < ids.as<std::int64_t>().size(); ++i)
      for (int f = 0; f < 4; ++f)
        sums[ids.as<std::int64_t>()[i]] += rows.as<float>()[i * 4 + static_cast<std::size_t>(f)];
  }
  ASSERT_EQ(sums.size(), 3U);
  EXPECT_EQ(read_json(path("s/manifest.json")).at("outputs")[0].at("node_types")[0].at("chosen"), 3);
  const ProgramResult gathered =
      run_program({program("hopfeed-partition"), "gather", text("s"), "--out", text("some.npy")});
  ASSERT_EQ(gathered.status, 0) << gathered.output;
  const NpyArray ids(path("some.ids.npy"));
  EXPECT_EQ(std::vector<std::int64_t>(ids.as<std::int64_t>().begin(), ids.as<std::int64_t>().end()),
            (std::vector<std::int64_t>{3, 17, 8'999}));
  for (const auto& [id, sum] : sums) EXPECT_NEAR(sum, 1, 1e-5) << id;
  ASSERT_EQ(run_program(infer({"--write", "embeddings=" + text("h"), "--float16"})).status, 0);
  EXPECT_EQ(NpyArray(path("h/embeddings/node/part-0000-00000.npy")).header().descr, "<f2");
}

TEST_F(InferenceProgram, ResultsOfAnotherRunStayUnlessTheyMayGo) {
  train();
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s")})).status, 0);
  const auto first = results_in(path("s"));
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s")})).status, 0) << "it is done already";
  EXPECT_EQ(results_in(path("s")), first);
  const ProgramResult other = run_program(infer({"--write", "scores=" + text("s"), "--softmax"}));
  EXPECT_NE(other.status, 0);
  EXPECT_NE(other.output.find("has results of another run"), std::string::npos) << other.output;
  EXPECT_EQ(results_in(path("s")), first);
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s"), "--softmax", "--overwrite"})).status, 0);
  EXPECT_NE(results_in(path("s")), first);
  EXPECT_EQ(results_in(path("s")).size(), first.size());
}

TEST_F(InferenceProgram, FinishedResultsAreOfTheSameNodes_AndWhole) {
  train();
  const auto infer_nodes = [&](std::vector<std::int64_t> ids) {
    std::filesystem::remove(path("nodes.npy"));
    write_npy<std::int64_t>(path("nodes.npy"), ids, {std::ssize(ids)});
    return run_program(infer({"--write", "scores=" + text("n"), "--nodes", text("nodes.npy")}));
  };
  ASSERT_EQ(infer_nodes({1, 2, 3}).status, 0);
  EXPECT_EQ(infer_nodes({3, 2, 1, 1}).status, 0) << "the same nodes";
  const ProgramResult other = infer_nodes({4, 5, 6});
  EXPECT_NE(other.output.find("results of another run"), std::string::npos) << other.output;
  EXPECT_NE(other.status, 0);
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s")})).status, 0);
  const auto whole = results_in(path("s"));
  const std::filesystem::path damaged = path("s/scores/node/part-0000-00000.npy"),
                              lost = path("s/scores/node/part-0001-00000.ids.npy");
  std::string bytes = testing::file_bytes(damaged);
  bytes.back() ^= 1;
  testing::write_bytes(damaged, bytes);
  std::filesystem::remove(lost);
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("s")})).status, 0);
  EXPECT_EQ(results_in(path("s")), whole);
}

TEST_F(InferenceProgram, FoldersOfTheUserAreLeftAsTheyAre) {
  train();
  const auto refused = [&](const Words& more, const std::string& what) {
    const auto before = testing::files_of(path("mine"));
    expect_refused(run_program(infer(more)), "node_classification", what);
    EXPECT_EQ(testing::files_of(path("mine")), before);
  };
  std::filesystem::create_directories(path("mine/layers"));
  testing::write_bytes(path("mine/layers/source.py"), "words");
  refused({"--write", "scores=" + text("s"), "--results", text("mine")}, "which no inference has made");
  std::filesystem::remove_all(path("mine"));
  std::filesystem::create_directories(path("mine/dist"));
  testing::write_bytes(path("mine/dist/precious.txt"), "words");
  testing::write_bytes(path("mine/manifest.json"), R"({"name": "my app", "output": "dist"})");
  refused({"--write", "scores=" + text("mine"), "--overwrite"},
          "manifest.json that is damaged, or of something");
  expect_refused(run_program(infer({"--write", "scores=" + text("data/scores")})), "node_classification",
                 "lies inside the dataset");
  EXPECT_FALSE(std::filesystem::exists(path("data/scores")));
  expect_refused(run_program(infer({"--write", "scores=" + text("a") + ",classes=" + text("a/b")})),
                 "node_classification", "one lies in the other");
}

TEST_F(InferenceProgram, BadInputIsOneLine_AndNothingLooksFinished) {
  train();
  const std::string write = "scores=" + text("s");
  const std::string name = "node_classification";
  expect_refused(run_program(nodes({"--write", write})), name, "--write goes with --infer");
  expect_refused(run_program(nodes({"--infer", "--write", write})), name, "--infer needs a model");
  expect_refused(run_program(nodes({"--softmax"})), name, "--softmax goes with --infer");
  expect_refused(run_program(infer({})), name, "--infer needs --write");
  expect_refused(run_program(infer({"--write", "score=" + text("s")})), name, "there are no 'score'");
  expect_refused(run_program(infer({"--write", text("s")})), name, "is not NAME=PATH");
  expect_refused(run_program(infer({"--write", write + ",classes=" + text("s")})), name, "give each its own");
  expect_refused(run_program({program(name), "--data", text("data"), "--infer", "--model", text("no.pt"),
                              "--write", write}),
                 name, "there is no file");
  expect_refused(run_program({program(name), "--servers", "127.0.0.1:1", "--infer", "--model",
                              text("out/model.pt"), "--write", write}),
                 name, "--infer reads the whole graph");
  testing::write_bytes(path("damaged.pt"), testing::file_bytes(path("out/model.pt")).substr(0, 5'000));
  expect_refused(run_program({program(name), "--data", text("data"), "--infer", "--model", text("damaged.pt"),
                              "--write", write}),
                 name, "damaged.pt");
  testing::write_tiny_dataset(path("wider"), testing::random_graph({.num_nodes = 300, .x_width = 9}));
  expect_refused(run_program({program(name), "--data", text("wider"), "--infer", "--model",
                              text("out/model.pt"), "--write", write}),
                 name, "9 features of node type 'node', not 8");
  expect_refused(run_program({program("link_prediction"), "--data", text("data"), "--infer", "--model",
                              text("out/model.pt"), "--write", "embeddings=" + text("s")}),
                 "link_prediction", "is a model of nodes");
  write_npy<std::int64_t>(path("nodes.npy"), std::vector<std::int64_t>{9'000}, {1});
  expect_refused(run_program(infer({"--write", write, "--nodes", text("nodes.npy")})), name, "has 9000");
  EXPECT_FALSE(std::filesystem::exists(path("s/manifest.json")));
}

// A folder that a failed run had claimed would be refused to the next one.
TEST_F(InferenceProgram, WhatFailsBeforeItHasWritten_LeavesNoFolder) {
  train();
  const auto expect_nothing_left = [&](const Words& command, const std::string& program,
                                       const std::string& told) {
    expect_refused(run_program(command), program, told);
    EXPECT_FALSE(std::filesystem::exists(path("new"))) << told;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("empty")), {}), 0) << told;
  };
  std::filesystem::create_directory(path("empty"));
  std::filesystem::create_directory(path("others"));
  std::ofstream(path("others/letter")) << "none of ours";
  const std::string write = "embeddings=" + text("new/deep/e") + ",scores=" + text("empty");
  const std::string name = "node_classification";
  expect_nothing_left(infer({"--write", write + ",classes=" + text("others")}), name, "has 'letter'");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("others")), {}), 1);
  Words slices = infer({"--write", write, "--memory", "100"});
  const ProgramResult small = run_program(slices);
  EXPECT_NE(small.status, 0) << small.output;
  EXPECT_FALSE(std::filesystem::exists(path("new"))) << small.output;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("empty")), {}), 0) << small.output;

  const testing::TypedGraph graph = testing::taste_graph();
  testing::write_typed_dataset(path("tastes"), graph, testing::random_typed_cut(graph, 2, 1));
  const Words links{program("link_prediction"), "--data", text("tastes")};
  Words train = links, both = links;
  for (const char* word : {"--edge-type", "listens", "--epochs", "1", "--no-baseline", "--out"})
    train.emplace_back(word);
  train.push_back(text("links"));
  ASSERT_EQ(run_program(train).status, 0);
  both.insert(both.end(), {"--infer", "--model", text("links/model.pt"), "--write", write});
  expect_nothing_left(both, "link_prediction", "has no scores");
  const ProgramResult whole = run_program(infer({"--write", write}));
  EXPECT_EQ(whole.status, 0) << whole.output;
}

TEST_F(InferenceProgram, OptionsOfATrainingAreRefusedWhereNothingIsTrained) {
  train();
  const auto refused = [&](const Words& more, const std::string& what) {
    Words words = infer({"--write", "scores=" + text("s")});
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(run_program(words), "node_classification", what);
    EXPECT_FALSE(std::filesystem::exists(path("s/manifest.json")));
  };
  const std::string of_training = " goes with a training, and --model trains nothing; leave one of them out";
  refused({"--epochs", "3"}, "--epochs" + of_training);
  refused({"--no-baseline", "--epochs", "3"}, "--no-baseline" + of_training);
  refused({"--lr=0.1"}, "--lr" + of_training);
  refused({"--out", text("o")}, "--out" + of_training);
  refused({"--resume"}, "--resume" + of_training);
  refused({"--num-workers", "2"}, "--num-workers" + of_training);
  refused({"--fanouts", "4,3"}, "--fanouts goes with a training, and " + text("out/model.pt") + " says what");
  expect_refused(run_program({program("link_prediction"), "--data", text("data"), "--infer", "--model",
                              text("out/model.pt"), "--write", "embeddings=" + text("s"), "--owners", "a:1"}),
                 "link_prediction", "--owners" + of_training);
}

TEST_F(InferenceProgram, PeersOfAMachineThatHasAllPartitions_AskNobody_WhichIsTold) {
  train();
  const ProgramResult result = run_program(
      infer({"--write", "scores=" + text("s"), "--peers", "127.0.0.1:1", "--results", text("r")}));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("has all partitions, so --peers asks nobody"), std::string::npos)
      << result.output;
}

TEST_F(InferenceProgram, LaunchersMayStartIt) {
  train();
  Words words = infer({"--write", "scores=" + text("s"), "--trainers", "2", "--timeout", "60"});
  for (const ProgramResult& result : trainer_tests::run_ranks(words, 2))
    ASSERT_EQ(result.status, 0) << result.output;
  const auto written = results_in(path("s"));
  EXPECT_EQ(written.size(), 2U * 2 + 1);
  std::filesystem::remove_all(path("s"));
  std::erase(words, "--data");
  std::erase(words, text("data"));
  const ProgramResult launched = run_program(
      words, {{"HOPFEED_DATA", text("data")}, {"HOPFEED_OWNERS", "servers"}, {"HOPFEED_RESTART", "1"}});
  ASSERT_EQ(launched.status, 0) << launched.output;
  EXPECT_EQ(results_in(path("s")), written);
}

TEST_F(InferenceProgram, TomorrowsGraphIsTold) {
  train();
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 500, .num_edges = 3'000, .x_width = 8, .seed = 9});
  graph.y.clear();  // and need have no labels
  graph.num_classes = 0;
  testing::write_tiny_dataset(path("tomorrow"), graph);
  const ProgramResult result =
      run_program({program("node_classification"), "--data", text("tomorrow"), "--infer", "--model",
                   text("out/model.pt"), "--write", "scores=" + text("s")});
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("trained on another dataset"), std::string::npos) << result.output;
  EXPECT_EQ(NpyArray(path("s/scores/node/part-0000-00000.npy")).header().shape,
            (std::vector<std::int64_t>{500, 4}));
}

TEST_F(InferenceProgram, AnOldModelNeedsTheFlags) {
  train();
  GraphSage model(ModelOptions{.hops = 2, .features = 8, .hidden = 16, .classes = 4});
  load_model(path("out/model.pt"), *model);
  save_model(path("old.pt"), *model);
  const Words words{program("node_classification"),
                    "--data",
                    text("data"),
                    "--infer",
                    "--model",
                    text("old.pt"),
                    "--write"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_program(more);
  };
  EXPECT_NE(with({"scores=" + text("wrong"), "--hidden", "12", "--fanouts", "4,3"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(path("wrong/manifest.json")));
  ASSERT_EQ(with({"scores=" + text("old"), "--hidden", "16", "--fanouts", "4,3"}).status, 0);
  ASSERT_EQ(run_program(infer({"--write", "scores=" + text("new")})).status, 0);
  EXPECT_EQ(results_in(path("old")), results_in(path("new")));
}

TEST_F(InferenceProgram, TypedAndLinkModelsWithLearnedRows) {
  const testing::TypedGraph typed = testing::typed_training_graph(), tastes = testing::taste_graph();
  testing::write_typed_dataset(path("typed"), typed, testing::random_typed_cut(typed, 2, 1));
  testing::write_typed_dataset(path("tastes"), tastes, testing::random_typed_cut(tastes, 2, 1));
  ProgramResult result =
      run_program({program("hetero_classification"), "--data", text("typed"), "--fanouts", "4,3", "--hidden",
                   "8", "--epochs", "1", "--no-baseline", "--node-type", "paper", "--out", text("typed-out"),
                   "--infer", "--write", "embeddings=" + text("te") + ",classes=" + text("tc")});
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(read_json(path("te/manifest.json")).at("outputs")[0].at("node_types")[0].at("rows"), 300);
  result = run_program({program("link_prediction"), "--data", text("tastes"), "--edge-type", "listens",
                        "--fanouts", "4,3", "--hidden", "8", "--epochs", "1", "--no-baseline", "--batch-size",
                        "100", "--out", text("tastes-out")});
  ASSERT_EQ(result.status, 0) << result.output;
  result = run_program({program("link_prediction"), "--data", text("tastes"), "--infer", "--model",
                        text("tastes-out/model.pt"), "--write", "embeddings=" + text("le")});
  ASSERT_EQ(result.status, 0) << result.output;
  std::map<std::string, std::int64_t> rows;
  const nlohmann::json manifest = read_json(path("le/manifest.json"));
  for (const nlohmann::json& type : manifest.at("outputs")[0].at("node_types"))
    rows[type.at("name")] = type.at("rows");
  EXPECT_EQ(rows,
            (std::map<std::string, std::int64_t>{{"user", testing::kUsers}, {"artist", testing::kArtists}}));
  expect_refused(run_program({program("link_prediction"), "--data", text("tastes"), "--infer", "--model",
                              text("tastes-out/model.pt"), "--write", "scores=" + text("ls")}),
                 "link_prediction", "has no scores; it has embeddings");
}

// With the Python package: tables, keys, Parquet.
TEST_F(InferenceProgram, RowsByKeysOfTables) {
  const std::string package =
      (std::filesystem::path(program("hopfeed-server")).parent_path() / "../python").string();
  const trainer_tests::EnvironmentVariables environment{
      {"PYTHONPATH", package},
      {"HOPFEED_PYTHON", HOPFEED_TEST_PYTHON},
      {"HOPFEED_BIN", std::filesystem::path(program("hopfeed-server")).parent_path().string()}};
  if (run_program({HOPFEED_TEST_PYTHON, "-c", "import hopfeed._core, pyarrow, duckdb"}, environment).status !=
      0)
    GTEST_SKIP() << "the Python package is not built, or pyarrow or duckdb is not there";
  const std::filesystem::path source = std::getenv("HOPFEED_SOURCE");
  const ProgramResult result = run_program(
      {HOPFEED_TEST_PYTHON, (source / "tests/trainer/infer_by_keys.py").string(), text("keys")}, environment);
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(InferenceProgram, KilledAtAnyMoment_TheFilesAreTheSame) {
  train();
  const Words target{"--write", "embeddings=" + text("whole") + ",scores=" + text("whole-s")};
  ASSERT_EQ(run_program(infer(target)).status, 0);
  const auto embeddings = results_in(path("whole")), scores = results_in(path("whole-s"));
  std::mt19937 random(7);
  int killed = 0;
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove_all(path("e"));
    std::filesystem::remove_all(path("s"));
    const Words command = infer({"--write", "embeddings=" + text("e") + ",scores=" + text("s")});
    {
      testing::BackgroundProgram running(command);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
      running.kill();
    }
    if (std::filesystem::exists(path("e/manifest.json")) && std::filesystem::exists(path("s/manifest.json")))
      continue;
    ++killed;
    const ProgramResult result = run_program(command);
    ASSERT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(results_in(path("e")), embeddings) << "round " << round;
    EXPECT_EQ(results_in(path("s")), scores) << "round " << round;
  }
  EXPECT_GT(killed, 0);
}

// Layers take up to 864 kB, embeddings 648 kB.
TEST_F(InferenceProgram, LayersAndResultsOnOneDiskAreAskedForTogether) {
  if (run_program({"unshare", "-m", "true"}).status != 0)
    GTEST_SKIP() << "needs the right to mount (unshare -m)";
  train();
  std::filesystem::create_directory(path("disk"));
  const auto line = [](const Words& words) {
    std::string text;
    for (const std::string& word : words) text += word + " ";
    return text;
  };
  const auto on_a_disk = [&](int kib, const std::string& commands) {
    return run_program(
        {"unshare", "-m", "sh", "-c",
         "mount -t tmpfs -o size=" + std::to_string(kib) + "k tmpfs " + text("disk") + " && " + commands});
  };
  const Words both = infer({"--write", "embeddings=" + text("disk/e")});
  ProgramResult result =
      on_a_disk(1'300, line(both) + "; status=$?; ls " + text("disk/e") + "; exit $status");
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_NE(result.output.find("No space left on device; it needs at least"), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("manifest.json"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("\nembeddings"), std::string::npos) << "nothing was computed";
  for (const Words& apart :
       {infer({"--write", "embeddings=" + text("disk/e"), "--results", text("layers")}),
        infer({"--write", "embeddings=" + text("e"), "--results", text("disk/layers")})}) {
    result = on_a_disk(1'300, line(apart));
    EXPECT_EQ(result.status, 0) << result.output;
  }
  result = on_a_disk(600, line(infer({"--write", "embeddings=" + text("disk/e"), "--results", text("l2")})));
  EXPECT_NE(result.output.find("cannot write " + text("disk/e") + ": No space left"), std::string::npos)
      << result.output;
  // What is there of the run is not asked for again.
  result = on_a_disk(1'800, line(both) +
                                " && printf x | dd of=" + text("disk/e/embeddings/node/part-0000-00000.npy") +
                                " bs=1 seek=1000 conv=notrunc && " + line(both));
  EXPECT_EQ(result.status, 0) << result.output;
}

/// Two machines: a server each, and the program beside it.
class TwoMachines : public InferenceProgram {
 protected:
  TwoMachines() {
    for (int& port : ports_) port = trainer_tests::free_port();
  }
  std::string addresses() const {
    return "127.0.0.1:" + std::to_string(ports_[0]) + ",127.0.0.1:" + std::to_string(ports_[1]);
  }
  void start_server(int machine) {
    const auto m = static_cast<std::size_t>(machine);
    servers_[m].reset();
    servers_[m] = std::make_unique<testing::BackgroundProgram>(
        Words{program("hopfeed-server"), "--data", text("data"), "--listen",
              "127.0.0.1:" + std::to_string(ports_[m]), "--num-workers", "1", "--max-memory", "256M",
              "--partitions", std::to_string(machine), "--peers", addresses(), "--results",
              text("results" + std::to_string(machine))});
    const std::string line = servers_[m]->read_line();
    EXPECT_NE(line.find("listening"), std::string::npos) << line;
  }
  Words infer_on(int machine) const {
    const std::string m = std::to_string(machine);
    return infer({"--partitions", m, "--peers", addresses(), "--results", text("results" + m), "--write",
                  "embeddings=" + text("e" + m) + ",scores=" + text("s" + m), "--peer-deadline", "20"});
  }
  /// What both have written, but for manifests, which say a machine's part alone.
  std::map<std::string, std::string> written() const {
    std::map<std::string, std::string> all;
    for (const char* machine : {"0", "1"})
      for (const char* kind : {"e", "s"}) all.merge(results_in(path(std::string(kind) + machine)));
    all.erase("manifest.json");
    return all;
  }
  std::map<std::string, std::string> written_alone() {
    EXPECT_EQ(run_program(infer({"--write", "embeddings=" + text("e") + ",scores=" + text("s")})).status, 0);
    std::map<std::string, std::string> all = results_in(path("e"));
    all.merge(results_in(path("s")));
    all.erase("manifest.json");
    return all;
  }
  void forget() const {
    for (const char* name : {"e0", "e1", "s0", "s1", "results0", "results1"})
      std::filesystem::remove_all(path(name));
  }

  int ports_[2] = {};
  std::unique_ptr<testing::BackgroundProgram> servers_[2];
};

TEST_F(TwoMachines, WriteWhatOneWrites_AndAnyProcessMayDie) {
  train();
  const auto wanted = written_alone();
  for (const int machine : {0, 1}) start_server(machine);
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    forget();
    std::unique_ptr<testing::BackgroundProgram> running[2];
    for (const int machine : {0, 1})
      running[machine] = std::make_unique<testing::BackgroundProgram>(infer_on(machine));
    if (round > 0) {  // the first is left alone
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 900));
      const int machine = static_cast<int>(random() % 2);
      if (random() % 2 == 0) {
        start_server(machine);  // anew: the old one is killed
      } else {
        running[machine]->kill();
        running[machine] = std::make_unique<testing::BackgroundProgram>(infer_on(machine));
      }
    }
    for (const int machine : {0, 1}) ASSERT_EQ(running[machine]->wait(60s), 0) << "round " << round;
    ASSERT_EQ(written(), wanted) << "round " << round;
    for (const char* folder : {"results0", "results1"})
      EXPECT_FALSE(std::filesystem::exists(path(folder) / "layers")) << "round " << round;
  }
}

TEST_F(TwoMachines, TrainingsEndWithTheSameExactAccuracies_AndInferOnBoth) {
  const auto summary = [&](const std::string& out) { return read_json(path(out) / "summary.json"); };
  const Words more{"--validate", "exact", "--batch-size", "500"};
  // The same two trainers, so the same model: on one machine, and on two.
  Words alone = nodes({"--out", text("alone"), "--infer", "--write", "scores=" + text("s"), "--epochs", "2"});
  alone.insert(alone.end(), more.begin(), more.end());
  for (const ProgramResult& result : trainer_tests::run_ranks(alone, 2))
    ASSERT_EQ(result.status, 0) << result.output;
  for (const int machine : {0, 1}) start_server(machine);
  const std::string port = std::to_string(trainer_tests::free_port());
  std::unique_ptr<testing::BackgroundProgram> running[2];
  for (const int machine : {0, 1}) {
    const std::string m = std::to_string(machine);
    Words words =
        nodes({"--out", text("out" + m), "--partitions", m, "--peers", addresses(), "--results",
               text("results" + m), "--infer", "--write", "scores=" + text("s" + m), "--epochs", "2"});
    words.insert(words.end(), more.begin(), more.end());
    running[machine] = std::make_unique<testing::BackgroundProgram>(
        words, Words{"RANK=" + m, "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
                     "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port});
  }
  for (const int machine : {0, 1}) ASSERT_EQ(running[machine]->wait(120s), 0);
  for (const char* split : {"train_accuracy", "valid_accuracy"})
    EXPECT_EQ(summary("alone").at(split), summary("out0").at(split)) << split;
  for (std::size_t epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(summary("alone").at("epoch_rows")[epoch].at("valid_accuracy"),
              summary("out0").at("epoch_rows")[epoch].at("valid_accuracy"));
  EXPECT_EQ(summary("alone").at("epoch_rows")[1].at("valid_accuracy"), summary("alone").at("valid_accuracy"))
      << "two epochs rarely fall; the last is the best";
  auto both = results_in(path("s0")), wanted = results_in(path("s"));
  both.merge(results_in(path("s1")));
  for (auto* files : {&both, &wanted}) files->erase("manifest.json");
  EXPECT_EQ(both, wanted);
}

TEST_F(TwoMachines, ModelsWithLearnedRowsAreOneRunToo) {
  const testing::TypedGraph tastes = testing::taste_graph();
  testing::write_typed_dataset(path("data"), tastes, testing::random_typed_cut(tastes, 2, 1));
  const ProgramResult trained = run_program(
      {program("link_prediction"), "--data", text("data"), "--edge-type", "listens", "--fanouts", "4,3",
       "--hidden", "8", "--epochs", "2", "--no-baseline", "--batch-size", "100", "--out", text("out")});
  ASSERT_EQ(trained.status, 0) << trained.output;
  const auto infer_links = [&](Words more) {
    Words words{program("link_prediction"), "--data", text("data"), "--infer", "--model",
                text("out/model.pt")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run_program(infer_links({"--write", "embeddings=" + text("e")})).status, 0);
  for (const int machine : {0, 1}) start_server(machine);
  std::unique_ptr<testing::BackgroundProgram> running[2];
  for (const int machine : {0, 1}) {
    const std::string m = std::to_string(machine);
    running[machine] = std::make_unique<testing::BackgroundProgram>(
        infer_links({"--partitions", m, "--peers", addresses(), "--results", text("results" + m), "--write",
                     "embeddings=" + text("e" + m)}));
  }
  for (const int machine : {0, 1}) ASSERT_EQ(running[machine]->wait(60s), 0);
  auto both = results_in(path("e0")), wanted = results_in(path("e"));
  both.merge(results_in(path("e1")));
  for (auto* files : {&both, &wanted}) files->erase("manifest.json");
  EXPECT_EQ(both, wanted);
}

TEST_F(TwoMachines, APartitionThatNobodyComputesIsToldAfterTheDeadline) {
  train();
  for (const int machine : {0, 1}) start_server(machine);
  Words command = infer_on(0);
  command.back() = "1";
  const ProgramResult result = run_program(command);
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find("partition 1"), std::string::npos) << result.output;
  EXPECT_FALSE(std::filesystem::exists(path("s0/manifest.json")));
}

TEST_F(TwoMachines, AStoppedRunSaysThatItGoesOn_AndDoes) {
  train();
  const auto wanted = written_alone();
  for (const int machine : {0, 1}) start_server(machine);
  Words command{"/bin/sh", "-c", "exec \"$@\" 2> " + text("said"), "sh"};
  const Words infers = infer_on(0);
  command.insert(command.end(), infers.begin(), infers.end());
  {
    testing::BackgroundProgram running(command);  // it waits for machine 1, where nobody computes
    while (!std::filesystem::exists(path("results0/layers"))) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(300ms);
    running.signal(SIGINT);
    EXPECT_EQ(running.wait(20s), 130);
  }
  const std::string said = testing::file_bytes(path("said")),
                    stays = "interrupted; what is whole stays in " + text("results0") +
                            ", and the same command goes on from it";
  EXPECT_NE(said.find(stays), std::string::npos) << said;
  EXPECT_TRUE(std::filesystem::exists(path("results0/layers"))) << "it says so";
  std::unique_ptr<testing::BackgroundProgram> running[2];
  for (const int machine : {0, 1})
    running[machine] = std::make_unique<testing::BackgroundProgram>(infer_on(machine));
  for (const int machine : {0, 1}) ASSERT_EQ(running[machine]->wait(60s), 0);
  EXPECT_EQ(written(), wanted);
}

TEST_F(TwoMachines, AnotherRunBesideIsRefused) {
  train();
  for (const int machine : {0, 1}) start_server(machine);
  ASSERT_EQ(run_program(nodes({"--out", text("other"), "--seed", "9"})).status, 0);
  Words other = infer_on(1);
  *std::ranges::find(other, text("out/model.pt")) = text("other/model.pt");
  // Who asks second finds that the other has ended already.
  other.back() = "3";
  Words ours = infer_on(0);
  ours.back() = "3";
  testing::BackgroundProgram running(other);
  const ProgramResult result = run_program(ours);
  EXPECT_NE(result.status, 0);
  EXPECT_TRUE(result.output.find("another run") != std::string::npos ||
              result.output.find("nobody computes") != std::string::npos)
      << result.output;
  EXPECT_GT(running.wait(60s), 0);
  for (const char* folder : {"s0", "s1"})
    EXPECT_FALSE(std::filesystem::exists(path(folder) / "manifest.json"));
}

TEST_F(TwoMachines, NeedAFolderThatTheServersServe) {
  train();
  for (const int machine : {0, 1}) start_server(machine);
  const ProgramResult result =
      run_program(infer({"--partitions", "0", "--peers", addresses(), "--write", "scores=" + text("s0")}));
  expect_refused(result, "node_classification", "--infer over several machines needs --results");
}

}  // namespace
}  // namespace hopfeed
