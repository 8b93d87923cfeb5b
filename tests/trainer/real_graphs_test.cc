// Accuracy on real graphs: what no unit test sees. Each is skipped, with the reason, where its data is
// absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/dataset/dataset.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/processes.h"
#include "trainer/layerwise_inference.h"
#include "trainer/trainer.h"

namespace hopfeed {
namespace {

using testing::program;
using testing::TempFolder;
using trainer_tests::run_program;

TEST(RealGraphs, CoraReaches77PercentOverFiveSeeds) {
  const char* folder = std::getenv("HOPFEED_GRAPHS");
  const std::filesystem::path raw = std::filesystem::path(folder ? folder : "") / "cora";
  if (!std::filesystem::exists(raw / "raw"))
    GTEST_SKIP() << "no cora in '" << raw.string() << "' (HOPFEED_GRAPHS names the folder)";
  const TempFolder temporary;
  const std::string data = (temporary.path() / "cora").string();
  const auto import =
      run_program({program("hopfeed-partition"), "import", "ogb", data, "--raw", raw.string()});
  ASSERT_EQ(import.status, 0) << import.output;

  at::set_num_threads(1);
  World world;
  const Dataset dataset(data);
  double sum = 0;
  std::ostringstream each;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const TrainingResult result = train(
        world, {.loader = {.dataset = data, .batch = {.fanouts = {10, 10}}, .deal = {.batch_size = 140}},
                .epochs = 60,
                .hidden = 64,
                .dropout = 0.5,
                .lr = 0.01,
                .weight_decay = 5e-3,
                .seed = seed,
                .out = temporary.path() / "out"});
    const double accuracy =
        split_accuracy(layerwise_inference(*result.model, dataset), dataset, "test").value();
    sum += accuracy;
    each << ' ' << accuracy;
  }
  std::printf("cora test accuracy:%s, mean %.4f\n", each.str().c_str(), sum / 5);
  EXPECT_GE(sum / 5, 0.77) << each.str();
}

double test_accuracy(const std::string& trainer, const std::string& data,
                     const std::vector<std::string>& options, const std::filesystem::path& json) {
  std::vector<std::string> command{HOPFEED_TEST_PYTHON,
                                   "-m",
                                   "torch.distributed.run",
                                   "--no-python",
                                   "--nproc-per-node=2",
                                   "--master-port=" + std::to_string(trainer_tests::free_port()),
                                   program(trainer),
                                   "--data",
                                   data,
                                   "--json",
                                   json.string()};
  command.insert(command.end(), options.begin(), options.end());
  const auto result = run_program(command, {}, 400);
  EXPECT_EQ(result.status, 0) << result.output;
  std::ifstream file(json);
  return file ? nlohmann::json::parse(file).at("test_accuracy").get<double>() : 0;
}

bool package_lists_are_there() {
  return run_program({"sh", "-c", "apt-cache dumpavail | grep -q ^Package:"}).status == 0;
}

TEST(RealGraphs, TheTypesOfTheDebianGraphSayMoreAfterTwoEpochsThanTheGraphWithoutAfterTwenty) {
  if (!package_lists_are_there())
    GTEST_SKIP() << "no apt package lists on this machine (apt-get update makes them)";
  const TempFolder temporary;
  const std::string data = (temporary.path() / "debian").string();
  const auto import = run_program({program("hopfeed-partition"), "import", "debian", data, "--hetero"});
  ASSERT_EQ(import.status, 0) << import.output;
  const double typed = test_accuracy("hetero_classification", data,
                                     {"--no-baseline", "--epochs", "2", "--fanouts", "4,2", "--edge-fanouts",
                                      "depends=6,4;rev_depends=6,4;tagged=0,6"},
                                     temporary.path() / "typed.json");
  std::printf("debian test accuracy with types: %.4f\n", typed);
  EXPECT_GE(typed, 0.81);
}

TEST(RealGraphs, OnTheDebianGraphSageBeatsFeaturesAloneBy15Points) {
  if (!package_lists_are_there())
    GTEST_SKIP() << "no apt package lists on this machine (apt-get update makes them)";
  const TempFolder temporary;
  const std::string data = (temporary.path() / "debian").string();
  const auto import = run_program({program("hopfeed-partition"), "import", "debian", data});
  ASSERT_EQ(import.status, 0) << import.output;
  // Features alone get the full 20 epochs, which cost little; six are enough for the graph to win.
  const double alone = test_accuracy("node_classification", data, {"--hops", "0", "--epochs", "20"},
                                     temporary.path() / "alone.json");
  const double sage = test_accuracy("node_classification", data, {"--no-baseline", "--epochs", "6"},
                                    temporary.path() / "sage.json");
  std::printf("debian test accuracy: features alone %.4f, GraphSAGE %.4f\n", alone, sage);
  EXPECT_GT(alone, 0.3);
  EXPECT_GE(sage, alone + 0.15);
}

}  // namespace
}  // namespace hopfeed
