// The commands that change edges, through the real program: what they make, what they say, and that bad input
// is one line and nothing left behind.
#include <gtest/gtest.h>

#include <array>

#include "core/base/failpoint.h"
#include "core/base/half_floats.h"
#include "core/base/json_text.h"
#include "core/dataset/dataset.h"
#include "tests/partition_tool/run_program.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ChangeProgram : public ::testing::Test {
 protected:
  ChangeProgram() {
    succeed("generate made --kind bipartite --users 200 --items 300 --interactions 4000 --seed 1");
  }
  testing::ToolResult run(const std::string& arguments) {
    return testing::run_shell(scratch_.path(), "cd " + work_.path().string() + "; {} " + arguments);
  }
  testing::ToolResult succeed(const std::string& arguments) {
    testing::ToolResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    EXPECT_EQ(result.complaint(), "");
    return result;
  }
  void refuse(const std::string& arguments, const std::string& part, int code = 2) {
    const auto before = testing::listing(work_.path());
    const testing::ToolResult result = run(arguments);
    EXPECT_EQ(result.exit_code, code) << arguments;
    const std::string complaint = result.complaint();
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 1) << arguments << "\n" << result.err;
    EXPECT_NE(complaint.find(part), std::string::npos) << arguments << "\n" << complaint;
    EXPECT_EQ(testing::listing(work_.path()), before) << arguments;
  }
  json report(const std::string& name) const { return parse_json(testing::file_bytes(work_.path() / name)); }
  const testing::TempFolder work_, scratch_;
};

TEST_F(ChangeProgram, EveryCommandHasHelp) {
  for (const char* command :
       {"split-links", "to-undirected", "deduplicate", "add-self-loops", "co-occurrence", "convert"}) {
    const testing::ToolResult result = run(std::string(command) + " --help");
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_NE(result.out.find("--json"), std::string::npos) << command;
    EXPECT_NE(result.out.find("default: those of DIR"), std::string::npos) << command;
  }
}

TEST_F(ChangeProgram, InteractionsAreSplitThenItemsThatShareUsersAreJoined) {
  const testing::ToolResult result =
      succeed("split-links made split --num-val 0.1 --num-test 200 --threads 2 --json split.json");
  EXPECT_NE(result.out.find("user__interacts__item: 4000 edges, "), std::string::npos) << result.out;
  const json split = report("split.json")["split_links"][0];
  EXPECT_EQ(split["reverse"], "item__rev_interacts__user");
  EXPECT_EQ(split["message"].get<int>() + split["valid"].get<int>() + split["test"].get<int>(), 4000);
  EXPECT_EQ(split["reverse_removed"], 4000 - split["message"].get<int>());
  succeed("split-links made same --num-val 0.1 --num-test 200 --threads 1 --json same.json");
  EXPECT_EQ(report("same.json")["fingerprint"], report("split.json")["fingerprint"]);
  const testing::ToolResult joined = succeed(
      "co-occurrence split joined --edge-type interacts --min-users 3 --max-user-degree 20 --json "
      "joined.json");
  EXPECT_NE(joined.out.find(" users have more than 20 items and were left out"), std::string::npos)
      << joined.out;
  const json counted = report("joined.json")["co_occurrence"];
  EXPECT_GT(counted["pairs"], 0);
  EXPECT_GT(counted["users_left_out"], 0);
  EXPECT_EQ(report("joined.json")["edge_types"]["item__co_occurs__item"], 2 * counted["pairs"].get<int>());
  succeed("partition joined parts --parts 2 --method random");
  for (const char* name : {"split", "joined", "parts"}) succeed(std::string("verify ") + name);
  const testing::ToolResult shown = succeed("inspect parts --json parts.json");
  EXPECT_NE(shown.out.find("the reverse of user__interacts__item"), std::string::npos);
  EXPECT_NE(shown.out.find("edge split test: "), std::string::npos);
  EXPECT_EQ(report("parts.json")["fingerprint"], report("joined.json")["fingerprint"]);
}

TEST_F(ChangeProgram, EdgesAreMadeUndirectedOnceAndWithLoops) {
  succeed("generate whole --nodes 100 --edges 900 --features 4 --classes 2 --seed 1");
  succeed("to-undirected whole both --json both.json");
  const json both = report("both.json")["to_undirected"][0];
  EXPECT_EQ(both["before"], 900);
  EXPECT_GT(both["after"], 900);
  succeed("deduplicate both once --json once.json");
  EXPECT_EQ(report("once.json")["deduplicate"][0]["after"], both["after"]);
  EXPECT_EQ(report("once.json")["fingerprint"], report("both.json")["fingerprint"]);
  succeed("add-self-loops once loops --json loops.json");
  succeed("split-links loops split --is-undirected --by random");
  const testing::ToolResult nothing = succeed("to-undirected made again");
  EXPECT_NE(nothing.out.find("nothing to do"), std::string::npos);
}

TEST_F(ChangeProgram, AttributesAreConvertedAndBack_WithFingerprintsOfTheirOwn) {
  succeed("generate plain --nodes 300 --edges 3000 --features 8 --classes 3 --seed 1 --train-fraction 0.5");
  const testing::ToolResult result =
      succeed("convert plain half --attr x=float16 --threads 2 --json half.json");
  EXPECT_NE(result.out.find("x is float16, where it was float32"), std::string::npos) << result.out;
  succeed("convert half back --attr x=float32 --json back.json");
  succeed("convert back again --attr x=float16 --json again.json");
  const json half = report("half.json");
  EXPECT_EQ(half["convert"][0]["after"], "float16");
  EXPECT_NE(half["fingerprint"], report("back.json")["fingerprint"]);
  EXPECT_EQ(half["fingerprint"], report("again.json")["fingerprint"]);  // what was rounded once stays
  const Dataset before(work_.path() / "plain"), after(work_.path() / "half");
  const AttrView x = before.attr(0, "x"), y = after.attr(0, "x");
  ASSERT_EQ(y.type, ElementType::kFloat16);
  EXPECT_EQ(y.row_bytes, x.row_bytes / 2);
  for (std::int64_t v = 0; v < 300; ++v) {
    std::int64_t id = -1, there = -1;
    before.original_ids(0, std::span(&v, 1), &id);
    after.dataset_ids(0, std::span(&id, 1), std::span(&there, 1));
    const auto* from = reinterpret_cast<const float*>(x.parts[0] + v * x.stride_bytes);
    const auto* to = reinterpret_cast<const std::uint16_t*>(y.parts[0] + there * y.stride_bytes);
    for (int column = 0; column < 8; ++column) ASSERT_EQ(to[column], float16_from(from[column])) << v;
  }
  refuse("convert plain out --attr z=float16", "has an attribute 'z'");
  refuse("convert plain out --attr x=float32", "cannot become float32");
  refuse("convert plain out --attr x=half", "half");
  refuse("convert plain out --attr x", "NAME=TYPE");
  refuse("convert plain out --attr x=float16 --attr x=bfloat16", "twice");
  refuse("convert plain out --attr y=float16", "cannot become float16");
  refuse("convert plain out", "no attribute is named");
}

TEST_F(ChangeProgram, BadInputIsOneLineAndLeavesNothingBehind) {
  refuse("split-links made out --num-val 1.5", "--num-val is '1.5'");
  refuse("split-links made out --num-val 0.6 --num-test 0.6", "none would be left to train on");
  refuse("split-links made out --by age", "--by");
  refuse("split-links made out --edge-types interacts,", "--edge-types is 'interacts,'");
  refuse("split-links made out --edge-types sells", "no edge type 'sells'");
  refuse("split-links made made", "exists");
  refuse("split-links none out", "no dataset folder");
  refuse("co-occurrence made out", "--edge-type is required");
  refuse("co-occurrence made out --edge-type interacts", "has no edge split 'train'");
  refuse("co-occurrence made out --edge-type interacts --all-edges --min-users 0", "--min-users");
  refuse("add-self-loops made out", "no edge type has both ends in one node type");
  refuse("add-self-loops made out --fill weight", "--fill is 'weight'");
  refuse("generate out --kind bipartite --users 5 --seed 1", "--items is required");
  refuse("generate out --kind bipartite --users 5 --items 5 --interactions 5 --edges 7 --seed 1",
         "--edges is for the other --kind");
  for (const char* option : {"--homophily 0.6", "--train-fraction 0.1", "--valid-fraction 0.1"})
    refuse(
        std::string("generate out --kind bipartite --users 5 --items 5 --interactions 5 --seed 1 ") + option,
        "is for the other --kind");
  for (const char* option : {"--tastes 64", "--loyalty 0.5", "--span 9"})
    refuse(std::string("generate out --nodes 5 --edges 5 --features 1 --classes 2 --seed 1 ") + option,
           "is for the other --kind");
  refuse("generate out --nodes 5 --edges 5 --features 1 --seed 1", "--classes is required");
}

TEST_F(ChangeProgram, ADamagedInputIsFoundBeforeItGetsAnotherFingerprint) {
  const fs::path file = work_.path() / "made/part-0000/edges/user__interacts__item/indices.npy";
  std::string bytes = testing::file_bytes(file);
  bytes[bytes.size() - 3] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  refuse("split-links made out", "indices.npy is damaged");
}

// F28 for what reads a dataset and makes another: after a kill at any moment the same command makes what it
// makes anywhere, and sweeps up.
class KilledChange : public ChangeProgram {
 protected:
  /// The commands under test, on graphs of about `edges` edges; each makes the folder "out".
  std::array<std::string, 3> commands(int edges) {
    const std::string count = std::to_string(edges), nodes = std::to_string(edges / 20);
    succeed("generate bought --kind bipartite --users " + nodes + " --items " + nodes + " --interactions " +
            count + " --seed 1");
    succeed("split-links bought held");
    succeed("generate whole --nodes " + nodes + " --edges " + count + " --features 4 --classes 2 --seed 1");
    return {"split-links bought out --threads 1", "co-occurrence held out --edge-type interacts --threads 1",
            "to-undirected whole out --threads 1"};
  }
  /// What the command makes where nothing goes wrong.
  std::map<std::string, std::string> made_by(const std::string& command) {
    succeed(command);
    auto files = testing::files_of(out_);
    fs::remove_all(out_);
    return files;
  }
  /// Runs the command, and kills it so many seconds after its temporary folder is there, which it makes
  /// first.
  testing::ToolResult kill_amid(const std::string& command, const std::string& delay) const {
    return testing::run_shell(scratch_.path(),
                              "cd " + work_.path().string() + "; {} " + command +
                                  " & pid=$!; while kill -0 $pid && ! ls -d .out.tmp-* >/dev/null 2>&1; "
                                  "do sleep 0.01; done; sleep " +
                                  delay + "; kill -KILL $pid; wait $pid");
  }
  void expect_whole(const std::map<std::string, std::string>& expected, const std::string& when) const {
    EXPECT_TRUE(testing::files_of(out_) == expected) << when;
  }
  void expect_made_again(const std::string& command, const std::map<std::string, std::string>& expected,
                         const std::set<std::string>& names, const std::string& when) {
    succeed(command);
    expect_whole(expected, command + ", " + when);
    fs::remove_all(out_);
    EXPECT_EQ(testing::listing(work_.path()), names) << command << ", " << when;
  }
  const fs::path out_ = work_.path() / "out";
};

TEST_F(KilledChange, WhileItWorks_TheNextRunMakesTheSameBytesAndSweepsUp) {
  for (const std::string& command : commands(300'000)) {
    const auto expected = made_by(command);
    const std::set<std::string> names = testing::listing(work_.path());
    int killed = 0;
    const auto kill_after = [&](const std::string& delay) {
      const testing::ToolResult result = kill_amid(command, delay);
      if (fs::exists(out_)) {  // it was faster
        expect_whole(expected, command + ", " + delay + " s");
        fs::remove_all(out_);
      } else {
        ++killed;
        EXPECT_EQ(result.exit_code, 128 + 9) << command << "\n" << result.err;
        EXPECT_NE(testing::listing(work_.path()), names) << command << ": it was killed before it began";
      }
      expect_made_again(command, expected, names, "killed after " + delay + " s");
    };
    kill_after("0.03");
    kill_after("0.1");
    killed = 0;
    for (int i = 0; i < 20 && killed == 0; ++i) kill_after("0");
    EXPECT_EQ(killed, 1) << command << " was always done before the signal came";
  }
}

TEST_F(KilledChange, AtAStepOfWriting_TheNextRunMakesTheSameBytesAndSweepsUp) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  for (const std::string& command : commands(2'000)) {
    const auto expected = made_by(command);
    const std::set<std::string> names = testing::listing(work_.path());
    int kills = 0;
    for (int step = 1;; step += 3) {
      const std::string when = "killed at step " + std::to_string(step);
      const testing::ToolResult result = testing::run_shell(
          scratch_.path(), "cd " + work_.path().string() + "; HOPFEED_FAIL=dataset.write=kill@" +
                               std::to_string(step) + " exec {} " + command);
      const bool there = fs::exists(out_);
      if (there) expect_whole(expected, command + ", " + when);
      fs::remove_all(out_);
      if (result.exit_code == 0) break;
      ASSERT_EQ(result.exit_code, 128 + 9) << command << ", " << when << "\n" << result.err;
      ++kills;
      expect_made_again(command, expected, names, when);
    }
    EXPECT_GT(kills, 3) << command;
  }
}

}  // namespace
}  // namespace hopfeed
