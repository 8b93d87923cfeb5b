// Trainers of one run that were started differently: a line on each rank names what differs, in place of a
// model that has learned from both.
#include <algorithm>

#include "core/dataset/dataset.h"
#include "tests/trainer/program_fixture.h"

namespace hopfeed {
namespace {

using trainer_tests::run_ranks;

constexpr const char* kDiffer = "the trainers do not train on the same batches: ";

class Agreement : public ::testing::Test {
 protected:
  Agreement() {
    testing::write_tiny_dataset(data_, testing::training_graph());
    testing::TinyGraph graph = testing::training_graph();
    graph.x.front() += 1;
    testing::write_tiny_dataset(other_, graph);
  }
  static std::string fingerprint(const std::filesystem::path& data) {
    return Dataset(data).meta().fingerprint;
  }
  /// Two trainers, each by a command of its own; their words have no spaces.
  static std::vector<ProgramResult> two_ranks(const std::vector<std::string>& first,
                                              const std::vector<std::string>& second) {
    const auto line = [](const std::vector<std::string>& words) {
      std::string joined = "exec";
      for (const std::string& word : words) joined += " " + word;
      return joined;
    };
    return run_ranks(
        {"/bin/sh", "-c", "if [ $RANK = 1 ]; then " + line(second) + "; else " + line(first) + "; fi"}, 2);
  }
  std::vector<std::string> classification(const std::vector<std::string>& source) const {
    std::vector<std::string> command{program("node_classification"),
                                     "--fanouts",
                                     "4,3",
                                     "--batch-size",
                                     "50",
                                     "--hidden",
                                     "16",
                                     "--epochs",
                                     "2",
                                     "--no-baseline"};
    command.insert(command.end(), source.begin(), source.end());
    return command;
  }
  static void expect_differ(const std::vector<ProgramResult>& ranks, const std::string& name,
                            const std::string& what) {
    for (const ProgramResult& rank : ranks) {
      expect_refused(rank, name, kDiffer);
      EXPECT_NE(rank.output.find(what), std::string::npos) << rank.output;
      EXPECT_NE(rank.output.find(" at rank 1 and "), std::string::npos) << rank.output;
    }
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data", other_ = folder_.path() / "other";
};

TEST_F(Agreement, RankThatWasStartedWithOtherOptions_IsNamedOnAllRanks) {
  const std::vector<std::string> first = classification({"--data", data_.string(), "--seed", "1"});
  const auto differ = [&](const std::string& option, const std::string& value, const std::string& what) {
    std::vector<std::string> second = first;
    const auto at = std::ranges::find(second, option);
    if (at == second.end())
      second.insert(second.end(), {option, value});
    else
      *std::next(at) = value;
    expect_differ(two_ranks(first, second), "node_classification", what);
  };
  differ("--seed", "7", "--seed is 7 at rank 1 and 1 at rank 0");
  differ("--fanouts", "4,2", "--fanouts is [4,2] at rank 1 and [4,3] at rank 0");
  differ("--batch-size", "40", "batch-size is 40 at rank 1 and 50 at rank 0");
  differ("--epochs", "3", "epochs is 3 at rank 1 and 2 at rank 0");
  differ("--lr", "0.5", "lr is 0.5 at rank 1 and 0.01 at rank 0");
}

TEST_F(Agreement, RankThatWasGivenOtherData_IsNamedOnAllRanks) {
  const std::vector<std::string> by_rank{
      "/bin/sh",
      "-c",
      "if [ $RANK = 1 ]; then d=$1; else d=$2; fi; shift 2; exec \"$@\" $d",
      "sh",
      other_.string(),
      data_.string()};
  std::vector<std::string> command = by_rank;
  for (const std::string& word : classification({"--data"})) command.push_back(word);
  const std::string what =
      "fingerprint is \"" + fingerprint(other_) + "\" at rank 1 and \"" + fingerprint(data_) + "\" at rank 0";
  expect_differ(run_ranks(command, 2), "node_classification", what);
  command = by_rank;
  command.push_back(program("own_training_loop"));
  expect_differ(run_ranks(command, 2), "own_training_loop", what);
}

TEST_F(Agreement, RanksAtServersWithOtherData_AreNamed_AndAPinnedFingerprintIsTaken) {
  const auto server = [](const std::filesystem::path& data) {
    return std::make_unique<testing::BackgroundProgram>(std::vector<std::string>{
        program("hopfeed-server"), "--data", data.string(), "--listen", "127.0.0.1:0", "--num-workers", "1"});
  };
  const auto address = [](testing::BackgroundProgram& server) {
    std::string line = server.read_line();
    const std::string says = "listening on ";
    EXPECT_TRUE(line.starts_with(says)) << line;
    line.erase(0, says.size());
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
  };
  const auto older = server(data_), newer = server(other_);
  const std::string addresses = address(*older) + "," + address(*newer);
  for (const ProgramResult& rank : run_ranks(classification({"--servers", addresses}), 2)) {
    expect_refused(rank, "node_classification", "name the one that is meant by its fingerprint (--dataset)");
    for (const auto& data : {data_, other_})
      EXPECT_NE(rank.output.find(fingerprint(data)), std::string::npos) << rank.output;
  }
  for (const ProgramResult& rank :
       run_ranks(classification({"--servers", addresses, "--dataset", fingerprint(data_)}), 2))
    EXPECT_EQ(rank.status, 0) << rank.output;
}

}  // namespace
}  // namespace hopfeed
