// The real program: what it makes, and that bad input is one line, an exit code and nothing left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <random>

#include "core/base/json_text.h"
#include "core/dataset/npy.h"
#include "tests/partition_tool/program_fixture.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::listing;
using testing::TempFolder;
using testing::ToolResult;

TEST_F(PartitionProgram, OutputThatCannotBeWritten_IsOneLine) {
  succeed("generate d --nodes 500 --edges 2000 --features 8 --classes 3 --seed 1");
  for (const std::string command : {"inspect d", "verify d", "partition d cut --parts 2", "--help"}) {
    const ToolResult result = shell("{} " + command + " >/dev/full");
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_EQ(result.complaint(),
              "hopfeed-partition: cannot write to standard output; is the disk full or the reader gone?\n");
  }
}

TEST_F(PartitionProgram, EveryCommandHasHelp) {
  for (const char* command : {"", "import ", "import debian ", "import ogb ", "import numpy ", "generate ",
                              "partition ", "cluster ", "push ", "gather ", "inspect ", "verify "}) {
    const ToolResult result = run(std::string(command) + "--help");
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_GT(result.out.size(), 100U) << command;
  }
  for (const char* command : {"import debian", "import ogb", "import numpy", "generate", "partition",
                              "cluster", "push", "gather", "inspect", "verify"}) {
    EXPECT_NE(run(std::string(command) + " --help").out.find("--json"), std::string::npos) << command;
  }
  const std::string help = run("generate --help").out;
  EXPECT_NE(help.find("Fanouts that the node order is computed for; default: 15,10,5\n"), std::string::npos);
  EXPECT_NE(help.find("Batch size that the node order is computed for; default: 1024\n"), std::string::npos);
}

TEST_F(PartitionProgram, GenerateInspectPartitionVerify) {
  const std::string sizes = " --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1";
  succeed("generate whole --threads 1 --json whole.json" + sizes);
  succeed("generate same --threads 2 --json same.json" + sizes);
  const std::string fingerprint = read_json("whole.json")["fingerprint"];
  EXPECT_EQ(read_json("same.json")["fingerprint"], fingerprint);
  const ToolResult inspected = succeed("inspect whole --presample 2 --json inspect.json");
  EXPECT_NE(inspected.out.find("500 nodes"), std::string::npos);
  EXPECT_NE(inspected.out.find(fingerprint), std::string::npos);
  const json report = read_json("inspect.json");
  EXPECT_EQ(report["edge_types"][0]["edges"], 4000);
  EXPECT_EQ(report["node_types"][0]["attrs"][0]["name"], "x");
  EXPECT_EQ(report["hotness"].size(), 1U);
  succeed("partition whole two --parts 2 --json two.json");
  succeed("partition two three --parts 3 --method random");
  EXPECT_EQ(read_json("two.json")["fingerprint"], fingerprint);
  EXPECT_GT(read_json("two.json")["edges_cut"], 0);
  EXPECT_GT(read_json("two.json")["cut_seconds"], 0);
  for (const char* name : {"whole", "two", "three"}) {
    const ToolResult verified = succeed(std::string("verify ") + name + " --json verify.json");
    EXPECT_NE(verified.out.find("ok"), std::string::npos);
    EXPECT_EQ(read_json("verify.json")["fingerprint"], fingerprint);
  }
  EXPECT_EQ(listing(work()), (std::set<std::string>{"whole", "same", "two", "three", "whole.json",
                                                    "same.json", "two.json", "inspect.json", "verify.json"}));
}

TEST_F(PartitionProgram, AGraphOfSeveralTypesIsImportedCutShownAndVerified) {
  save<std::int64_t>("listens.npy", {0, 1, 2, 3, 4, 5, 0, 1, 1, 0, 1, 2}, {2, 6});
  save<std::int64_t>("heard.npy", {0, 1, 1, 0, 1, 2, 0, 1, 2, 3, 4, 5}, {2, 6});
  save<float>("w.npy", {1, 2, 3, 4, 5, 6}, {6});
  save<std::int64_t>("train.npy", {0, 1, 2}, {3});
  std::ofstream(work() / "graph.json")
      << R"({"nodes": [{"name": "artist"}, {"name": "user", "splits": {"train": "train.npy"}}],
      "edges": [{"src": "user", "rel": "listens", "dst": "artist", "index": "listens.npy"},
                {"src": "artist", "rel": "heard_by", "dst": "user", "index": "heard.npy",
                  "attrs": {"w": "w.npy"}, "weights": ["w"]}]})";
  const ToolResult made = succeed("import numpy whole --hetero graph.json --json whole.json");
  EXPECT_NE(made.out.find("9 nodes of 2 types, 12 edges of 2 types"), std::string::npos) << made.out;
  succeed("partition whole cut --parts 2 --method random --json cut.json");
  const json cut = read_json("cut.json");
  EXPECT_EQ(cut["fingerprint"], read_json("whole.json")["fingerprint"]);
  EXPECT_EQ(cut["node_types"]["user"]["partition_offsets"], json({0, 3, 6}));
  EXPECT_EQ(cut["edge_types"]["artist__heard_by__user"], 6);
  succeed("partition cut metis --parts 2");
  for (const char* name : {"whole", "cut", "metis"}) succeed(std::string("verify ") + name);
  const ToolResult shown = succeed("inspect cut --presample 1 --json inspect.json");
  for (const char* part : {"node type user: 6 nodes", "edge type artist -> heard_by -> user: 6 edges",
                           "weight w", "hotness of partition 1, node type artist"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
  EXPECT_EQ(read_json("inspect.json")["hotness"].size(), 4U);
  refuse("import numpy bad --hetero graph.json --edge-index listens.npy",
         "leave out the options of single arrays");
  refuse("import numpy bad --hetero none.json", "none.json");
}

TEST_F(PartitionProgram, AttributesWeightsAndTimesOfEdgesComeInAreShownAndAreKeptByPartition) {
  save<std::int64_t>("e.npy", {0, 1, 2, 3, 0, 1, 1, 1, 1, 0}, {2, 5});
  save<float>("w.npy", {1, 0, 3, 4, 5}, {5});
  save<std::int16_t>("kind.npy", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2});
  save<std::int64_t>("t.npy", {9, -8, 7, 6, 5}, {5});
  save<std::int64_t>("born.npy", {1, 2, 3, 4}, {4});
  const std::string files =
      " --edge-index e.npy --edge-attr w=w.npy --edge-attr kind=kind.npy --edge-attr t=t.npy --node-attr "
      "born=born.npy";
  succeed("import numpy whole" + files + " --weight w --time t --time born --json whole.json");
  succeed("partition whole cut --parts 2 --method random --json cut.json");
  EXPECT_EQ(read_json("cut.json")["fingerprint"], read_json("whole.json")["fingerprint"]);
  for (const char* name : {"whole", "cut"}) {
    succeed(std::string("verify ") + name);
    const ToolResult shown = succeed(std::string("inspect ") + name + " --json inspect.json");
    for (const char* part : {"attribute kind: int16 [2]", "weight w", "time t", "time born"})
      EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
    const json edge = read_json("inspect.json")["edge_types"][0];
    EXPECT_EQ(edge["attrs"].size(), 3U);
    EXPECT_EQ(edge["weights"], json({"w"}));
    EXPECT_EQ(edge["times"], json({"t", "born"}));
    EXPECT_GT(read_json("inspect.json")["bytes"]["tables"], 0);
  }
  succeed("import numpy none" + files + " --weight w --time t --no-edge-ids");
  succeed("verify none");
  succeed("partition none none-cut --parts 2 --method random");  // compares the fingerprints
  succeed("verify none-cut");
  refuse("import numpy bad" + files + " --weight kind", "weight 'kind' has 2 numbers each");
  refuse("import numpy bad" + files + " --time w", "convert it to int64");
  refuse("import numpy bad" + files + " --edge-attr t.npy", "--edge-attr is 't.npy'; give NAME=FILE");
  refuse("import numpy bad" + files + " --edge-attr u=", "give NAME=FILE");
  refuse("import numpy bad" + files + " --weight ''", "--weight is ''");
  save<float>("negative.npy", {0, 0, 3, -1, 5}, {5});
  refuse("import numpy bad --edge-index e.npy --edge-attr w=negative.npy --weight w",
         "negative.npy: weight 'w' of edge 3, which ends at node 1, is -1; weights are zero or above, and "
         "finite");
  save<float>("short.npy", {1, 2}, {2});
  refuse("import numpy bad --edge-index e.npy --edge-attr w=short.npy",
         "short.npy: it has 2 rows, but there are 5 edges");
}

TEST_F(PartitionProgram, FanoutsAndBatchSizeOfTheOrderAreKeptByPartition) {
  succeed(
      "generate d --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1 --fanouts 4,-1 --batch-size 32");
  succeed("partition d cut --parts 2");
  succeed("partition d other --parts 2 --fanouts 2 --batch-size 7");
  EXPECT_EQ(Dataset(work() / "cut").meta().cut.fanouts, (std::vector<std::int64_t>{4, -1}));
  EXPECT_EQ(Dataset(work() / "cut").meta().cut.batch_size, 32);
  EXPECT_EQ(Dataset(work() / "other").meta().cut.fanouts, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(Dataset(work() / "other").meta().cut.batch_size, 7);
}

TEST_F(PartitionProgram, EdgeIdsCanBeLeftOut) {
  succeed("generate d --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1 --no-edge-ids");
  EXPECT_FALSE(Dataset(work() / "d").meta().edge_types[0].has_edge_ids);
  succeed("partition d cut --parts 2");
  succeed("verify cut");
}

TEST_F(PartitionProgram, RowsComeInTheOrderOfSourceIdsWhereThatIsAskedFor) {
  const auto ordered = [&](const char* folder) {
    return Dataset(work() / folder).meta().edge_types[0].has_by_id;
  };
  succeed("generate d --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1 --by-id");
  succeed("generate plain --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1");
  succeed("partition d cut --parts 2");
  succeed("partition plain cut-by-id --parts 3 --method random --by-id --threads 2");
  EXPECT_TRUE(ordered("d") && ordered("cut") && ordered("cut-by-id"));
  EXPECT_FALSE(ordered("plain"));
  for (const char* folder : {"d", "cut", "cut-by-id"}) {
    succeed(std::string("verify ") + folder);
    EXPECT_EQ(Dataset(work() / folder).meta().fingerprint, Dataset(work() / "plain").meta().fingerprint);
  }
  EXPECT_NE(succeed("inspect cut --json report.json").out.find("in the order of source ids"),
            std::string::npos);
  EXPECT_TRUE(read_json("report.json")["edge_types"][0]["by_id"].get<bool>());
}

TEST_F(PartitionProgram, HalosAreWrittenShownVerifiedAndKeptByHotness) {
  save<std::int64_t>("e.npy", {0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3, 1}, {2, 6});
  save<float>("w.npy", {1, 2, 3, 4, 5, 6}, {6});
  save<std::int64_t>("t.npy", {9, -8, 7, 6, 5, 4}, {6});
  save<float>("x.npy", {1, 2, 3, 4, 5}, {5, 1});
  succeed(
      "import numpy whole --edge-index e.npy --features x.npy --edge-attr w=w.npy --edge-attr t=t.npy "
      "--weight w --time t --by-id");
  succeed("partition whole cut --parts 2 --method random --halo 1 --json cut.json");
  succeed("partition whole plain --parts 2 --method random --halo 0");
  succeed("hotness cut ordered --policy degree");
  succeed("partition ordered again --parts 2 --method random --halo 1");
  for (const char* folder : {"cut", "plain", "ordered", "again"}) {
    succeed(std::string("verify ") + folder);
    const DatasetMeta meta = Dataset(work() / folder).meta();
    EXPECT_EQ(meta.fingerprint, Dataset(work() / "whole").meta().fingerprint);
    EXPECT_EQ(meta.has_halos(), folder != std::string("plain"));
  }
  const json halo = read_json("cut.json")["node_types"]["node"]["halo_nodes"];
  const ToolResult shown = succeed("inspect cut --json report.json");
  EXPECT_NE(shown.out.find(fmt::format("{} in its halo", halo[0].get<int>())), std::string::npos)
      << shown.out;
  EXPECT_EQ(read_json("report.json")["node_types"][0]["halo_nodes"], halo);
  EXPECT_GT(read_json("report.json")["bytes"]["halos"], 0);
  refuse("partition whole out --parts 1 --halo 1", "--parts 1 cuts nothing");
  succeed("push cut --to 0=with --to 1=other");
  succeed("push cut --without-halos --to 0-1=without");
  EXPECT_TRUE(fs::exists(work() / "with/part-0000/halo"));
  EXPECT_FALSE(fs::exists(work() / "without/part-0000/halo"));
  for (const char* folder : {"with", "without"}) succeed(std::string("inspect ") + folder);
  succeed("verify without");
  succeed("inspect without --json without.json");
  EXPECT_EQ(read_json("without.json")["bytes"]["halos"], 0) << "those that are not there take nothing";
  for (int i = 0; i < 2; ++i) succeed("push cut --to 0-1=half/");
  fs::remove_all(work() / "half/part-0000/halo");
  succeed("verify half");
  const fs::path damaged = work() / "half/part-0001/halo/edges/node__to__node/indices.npy";
  std::string bytes = testing::file_bytes(damaged);
  bytes.back() ^= 1;
  testing::write_bytes(damaged, bytes);
  refuse("verify half", "part-0001/halo/edges");
  refuse("push cut --to 0=with/deeper", "lies inside the dataset");
  refuse("partition whole out --parts 2 --halo 2", "--halo is '2'");
}

TEST_F(PartitionProgram, OverwriteReplacesADatasetAndNothingElse) {
  make_small("d");
  refuse("generate d --nodes 10 --edges 20 --features 1 --classes 2 --seed 1", "--overwrite");
  succeed("generate d --nodes 10 --edges 20 --features 1 --classes 2 --seed 1 --overwrite");
  EXPECT_EQ(Dataset(work() / "d").num_nodes(0), 10);
  write("other/file", "mine");
  refuse("generate other --nodes 10 --edges 20 --features 1 --classes 2 --seed 1 --overwrite",
         "not a hopfeed dataset");
  // Onto itself: read through the old maps, replaced at the end.
  succeed("partition d d --parts 2 --method random --overwrite");
  EXPECT_EQ(Dataset(work() / "d").meta().partitions, 2);
}

TEST_F(PartitionProgram, BadUsageIsRefused) {
  refuse("", "name a command");
  refuse("frobnicate", "frobnicate");
  refuse("import", "name a command");
  refuse("import csv d", "csv");
  const std::string good = "generate d --nodes 10 --edges 20 --features 1 --classes 2 --seed 1";
  refuse(good + " --frobnicate", "--frobnicate");
  refuse("generate d --edges 20 --features 1 --classes 2 --seed 1", "--nodes");
  refuse("generate d --nodes ten --edges 20 --features 1 --classes 2 --seed 1", "--nodes");
  refuse("generate d --nodes 0 --edges 20 --features 1 --classes 2 --seed 1", "--nodes");
  refuse("generate d --nodes 10 --edges -1 --features 1 --classes 2 --seed 1", "--edges");
  refuse("generate d --nodes 10 --edges 20 --features 1 --classes 11 --seed 1", "--classes");
  refuse("generate d --nodes 10 --edges 20 --features 1 --classes 2 --seed -1", "--seed");
  refuse("generate d --nodes 10 --edges 20 --features 1 --classes 2 --seed 18446744073709551616",
         "--seed is '18446744073709551616'; give a whole number from 0 to 18446744073709551615");
  refuse(good + " --homophily 2", "--homophily");
  refuse(good + " --threads 0", "--threads");
  refuse(good + " --batch-size 0", "--batch-size");
  refuse(good + " --batch-size 16777217", "--batch-size");
  for (const char* fanouts : {"-2", "15,-2", "65536", "15,,5", "ten"})
    refuse(good + " --fanouts " + fanouts, "fanout");
  refuse(good + " --fanouts 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "17 hops");
  refuse(good + " --json none/report.json", "none/report.json");
  refuse(good + " --json d", "that is made; choose a place outside of it");
  refuse("generate '' --nodes 10 --edges 20 --features 1 --classes 2 --seed 1", "DIR is ''");
  write("file", "");
  refuse("generate file --nodes 10 --edges 20 --features 1 --classes 2 --seed 1", "not a folder");
  refuse("generate file/d --nodes 10 --edges 20 --features 1 --classes 2 --seed 1", "file", 1);
}

// F31. Two terabytes at the least; nothing is reserved, and the line says what to change.
TEST_F(PartitionProgram, GraphLargerThanTheMemory_IsRefusedBeforeItIsMade) {
  refuse("generate big --nodes 100000000000 --edges 10 --features 4 --classes 2 --seed 1",
         "the generated graph needs ", 1);
  refuse("generate big --nodes 10 --edges 1000000000000 --features 4 --classes 2 --seed 1",
         "lower --nodes or --edges", 1);
}

TEST_F(PartitionProgram, AThinnedMetisCut_IsRecordedAndMadeAgainByItsDegree) {
  make_small("d");
  succeed("partition d a --parts 3 --metis-degree 2 --json a.json");
  succeed("partition d b --parts 3 --metis-degree 2 --threads 1 --json b.json");
  succeed("partition d whole --parts 3 --json whole.json");
  EXPECT_EQ(read_json("a.json")["metis_degree"], 2);
  EXPECT_EQ(read_json("whole.json")["metis_degree"], 0);
  EXPECT_EQ(read_json("a.json")["partition_offsets"], read_json("b.json")["partition_offsets"]);
  EXPECT_EQ(read_json("a.json")["edges_cut"], read_json("b.json")["edges_cut"]);
  EXPECT_EQ(read_json("a.json")["fingerprint"], read_json("whole.json")["fingerprint"]);
  EXPECT_NE(succeed("inspect a").out.find("METIS saw about 2 neighbours of each node"), std::string::npos);
  EXPECT_EQ(succeed("inspect whole").out.find("METIS saw"), std::string::npos);
  EXPECT_EQ(Dataset(work() / "a").meta().cut.metis_degree, 2);
}

// 20 times the edges, 40 MB of them if they were held.
TEST_F(PartitionProgram, GeneratesInMemoryThatDoesNotGrowWithTheEdges) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep what was freed and shadow what was touched";
#endif
  const auto peak_kib = [&](const std::string& edges) {
    struct rusage usage {};
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string program = (fs::path(std::getenv("HOPFEED_BIN")) / "hopfeed-partition").string(),
                        folder = (work() / edges).string();
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(nowhere, STDERR_FILENO);
      ::execl(program.c_str(), program.c_str(), "generate", folder.c_str(), "--nodes", "20000", "--edges",
              edges.c_str(), "--features", "4", "--classes", "4", "--seed", "1", "--threads", "2", nullptr);
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    EXPECT_EQ(status, 0);
    return usage.ru_maxrss;
  };
  const auto few = peak_kib("500000"), many = peak_kib("10000000");
  EXPECT_LT(many, few + 24 * 1024) << few << " KiB for half a million edges";
}

TEST_F(PartitionProgram, BadNumpyInputIsRefused) {
  save<std::int64_t>("e.npy", {2, 0, 2, 1, 1, 0}, {2, 3});
  save<float>("x.npy", {1, 2, 3, 4, 5, 6}, {3, 2});
  save<std::int64_t>("out_of_range.npy", {2, 0, 7, 1, 1, 0}, {2, 3});
  save<std::int64_t>("flat.npy", {2, 0, 2}, {3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  save<float>("nan.npy", {1, nan, 3, 4, nan, 6}, {3, 2});
  write("text.npy", "not an array");
  refuse("import numpy d", "--edge-index");
  refuse("import numpy d --edge-index none.npy", "none.npy");
  refuse("import numpy d --edge-index text.npy", "text.npy");
  refuse("import numpy d --edge-index flat.npy", "flat.npy");
  refuse("import numpy d --edge-index out_of_range.npy --features x.npy",
         "out_of_range.npy: edge 2 has source node 7");
  refuse("import numpy d --edge-index e.npy --features nan.npy --reject-nonfinite",
         "attribute x has 2 values that are NaN");
  const ToolResult counted = run("import numpy d --edge-index e.npy --features nan.npy --json d.json");
  EXPECT_EQ(counted.exit_code, 0);
  EXPECT_EQ(counted.complaint(),
            "hopfeed-partition: warning: attribute x has 2 values that are NaN or infinite\n");
  EXPECT_EQ(counted.out.find("NaN"), std::string::npos) << "standard output is for results";
  EXPECT_EQ(read_json("d.json")["nonfinite"]["x"], 2);
  succeed("verify d");
}

TEST_F(PartitionProgram, BadOgbInputIsRefused) {
  refuse("import ogb d", "--raw");
  refuse("import ogb d --raw none", "none");
  for (const auto& [name, text] : {std::pair{"raw/num-node-list", "3\n"},
                                   {"raw/edge", "0,1\n1,2\n"},
                                   {"split/s/train", "0\n"},
                                   {"split/s/valid", "1\n"},
                                   {"split/s/test", "2\n"}}) {
    write(std::string("ogb/") + name + ".csv", text);
  }
  write("ogb/raw/edge.csv", "0,1\n1;2\n");
  refuse("import ogb d --raw ogb", "edge.csv, line 2");
  write("ogb/raw/edge.csv", "0,1\n1,3\n");
  refuse("import ogb d --raw ogb", "edge.csv, line 2: node 3 is out of range");
  write("ogb/raw/edge.csv", "0,1\n1,2\n");
  succeed("import ogb d --raw ogb");
  succeed("verify d");
}

TEST_F(PartitionProgram, WithoutAptImportDebianIsOneClearLine) {
  refuse_shell("PATH=/nonexistent {} import debian d", "this machine has no apt", 2);
  write("fake/apt-cache", "#!/bin/sh\nexit 100\n");
  fs::permissions(work() / "fake/apt-cache", fs::perms::owner_all);
  refuse_shell("PATH=" + (work() / "fake").string() + " {} import debian d", "apt-cache dumpavail failed", 2);
  write("fake/apt-cache", "#!/bin/sh\necho Package: one\n");
  refuse_shell("PATH=" + (work() / "fake").string() + " {} import debian d", "apt-get update", 2);
  write("fake/apt-cache", "#!/bin/sh\nexit 0\n");
  refuse_shell("PATH=" + (work() / "fake").string() + " {} import debian d", "apt-get update", 2);
  refuse("import debian d --dump none.txt", "none.txt");
  write("garbage.txt", "<html>no packages</html>\n");
  refuse("import debian d --dump garbage.txt", "garbage.txt, line 1");
}

TEST_F(PartitionProgram, ASavedDumpIsImported) {
  const std::string dump =
      (fs::path(std::getenv("HOPFEED_SOURCE")) / "tests/partition_tool/data/packages.txt").string();
  succeed("import debian d --min-class-size 2 --dump " + dump);
  succeed("verify d");
  EXPECT_EQ(Dataset(work() / "d").meta().class_names, (std::vector<std::string>{"editors", "libs"}));
}

TEST_F(PartitionProgram, BadDatasetsAndCutsAreRefused) {
  make_small("d");
  for (const char* command : {"inspect ", "verify "}) {
    refuse(std::string(command) + "none", "none");
    refuse(std::string(command) + ".", "meta.json");
  }
  refuse("partition none out --parts 2", "none");
  refuse("partition d out", "--parts");
  refuse("partition d out --parts 0", "--parts 0");
  refuse("partition d out --parts -1", "--parts -1");
  refuse("partition d out --parts 501", "--parts 501");
  refuse("partition d out --parts 2 --method best", "best");
  refuse("partition d d --parts 2", "--overwrite");
  refuse("partition d out --parts 2 --fanouts -2", "fanout");
  refuse("partition d out --parts 2 --metis-degree -1", "--metis-degree");
  refuse("partition d out --parts 2 --method random --metis-degree 3",
         "--metis-degree is for --method metis");
  // A damaged attribute is caught by the fingerprint before the result is there.
  const fs::path x = work() / "d/part-0000/nodes/node/x.npy";
  std::string bytes = testing::file_bytes(x);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  std::ofstream(x, std::ios::binary) << bytes;
  refuse("partition d out --parts 2", "fingerprint");
  std::string meta = testing::file_bytes(work() / "d/meta.json");
  meta.replace(meta.find("\"version\": 4"), 12, "\"version\": 99");
  std::ofstream(work() / "d/meta.json", std::ios::binary) << meta;
  refuse("partition d out --parts 2", "version 99");
  refuse("verify d", "version 99");
}

// F35: at any moment, by any of the signals; two in quick succession (launchers and `timeout` send them so)
// are one wish.
TEST_F(PartitionProgram, StopSignalsAtRandomMoments_LeaveNothing) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (const char* signals : {"-TERM", "-INT", "-HUP", "-TERM $pid; sleep 0.002; kill -TERM"}) {
    // The temporary folder is there from the start; the signal is seen at the next progress report.
    const std::string delay = "0.0" + std::to_string(10 + random() % 90);
    const ToolResult result = shell(
        "{} generate d --nodes 400000 --edges 12000000 --features 16 --classes 4 --seed 1 & pid=$!; "
        "for i in $(seq 2000); do ls -d .d.tmp-* >/dev/null 2>&1 && break; sleep 0.05; done; sleep " +
        delay + "; kill " + signals + " $pid 2>/dev/null; wait $pid");  // the second may find it gone
    EXPECT_EQ(result.exit_code, 130) << signals << " after " << delay << " s\n" << result.err;
    EXPECT_EQ(result.complaint(), "hopfeed-partition: interrupted; nothing half-written is left\n");
    EXPECT_EQ(listing(work()), std::set<std::string>{}) << signals << "\n" << result.err;
  }
}

TEST_F(PartitionProgram, TermSignalInsideMetis_StopsItCleanlyToo) {
  succeed("generate d --nodes 50000 --edges 1000000 --features 1 --classes 4 --seed 1");
  // METIS runs in a process of its own, which is there while it works.
  const ToolResult result = shell(
      "{} partition d cut --parts 64 & pid=$!; for i in $(seq 20000); do child=$(cat "
      "/proc/$pid/task/$pid/children); [ -n \"$child\" ] && break; sleep 0.01; done; kill -TERM $pid; wait "
      "$pid; code=$?; [ -n \"$child\" ] && ! kill -0 $child 2>/dev/null && exit $code; exit 99");
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(listing(work()), std::set<std::string>{"d"}) << result.err;
}

TEST_F(PartitionProgram, WhatAKilledRunLeftIsSweptByTheNext) {
  shell(
      "{} generate d --nodes 400000 --edges 12000000 --features 16 --classes 4 --seed 1 & pid=$!; "
      "for i in $(seq 2000); do ls -d .d.tmp-* >/dev/null 2>&1 && break; sleep 0.05; done; kill -KILL $pid; "
      "wait $pid");
  EXPECT_EQ(listing(work()).size(), 1U);
  make_small("d");
  EXPECT_EQ(listing(work()), std::set<std::string>{"d"});
}

}  // namespace
}  // namespace hopfeed
