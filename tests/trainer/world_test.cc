// Several trainers as real processes over Gloo.
#include "trainer/world.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/processes.h"
#include "trainer/dist_embedding.h"

namespace hopfeed {
namespace {

using testing::program;
using testing::TempFolder;
using trainer_tests::run_program;
using trainer_tests::run_ranks;

std::vector<float> gradient_of(const std::filesystem::path& folder, int ranks) {
  const std::filesystem::path out = folder / ("gradient" + std::to_string(ranks));
  for (const auto& rank :
       run_ranks({program("gradient_rank"), (folder / "data").string(), "101", out.string()}, ranks)) {
    EXPECT_EQ(rank.status, 0) << rank.output;
  }
  std::ifstream file(out, std::ios::binary);
  std::vector<float> gradient(std::filesystem::file_size(out) / sizeof(float));
  file.read(reinterpret_cast<char*>(gradient.data()),
            static_cast<std::streamsize>(gradient.size() * sizeof(float)));
  return gradient;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(a[i]) * a[i];
  }
  return std::sqrt(difference / norm);
}

TEST(World, TwoAndThreeRanksGiveTheGradientOfOneRankWithAllTheirSeeds) {
  const TempFolder folder;  // 101 seeds: 51 + 50, and 34 + 34 + 33; some of them without a label
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 500, .num_edges = 4'000, .x_width = 10, .num_train = 200});
  for (std::int64_t v = 0; v < graph.num_nodes; v += 7) graph.y[v] = -1;
  testing::write_tiny_dataset(folder.path() / "data", graph);
  const std::vector<float> one = gradient_of(folder.path(), 1);
  ASSERT_GT(one.size(), 100u);
  for (const int ranks : {2, 3}) {
    const std::vector<float> several = gradient_of(folder.path(), ranks);
    ASSERT_EQ(several.size(), one.size());
    EXPECT_LE(relative_error(one, several), 1e-6) << ranks << " ranks";
  }
}

std::vector<float> floats_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

// Rank r's gradients are r + 1 wherever it read a row; in odd steps rank 0 reads none.
TEST(World, EveryRankLearnsTheRowsThatAnyRankRead) {
  constexpr int kSteps = 5;
  for (const int ranks : {2, 3}) {
    const TempFolder folder;
    const std::string out = (folder.path() / "table").string();
    for (const auto& rank :
         run_ranks({program("gradient_rank"), "--embedding", std::to_string(kSteps), out}, ranks))
      ASSERT_EQ(rank.status, 0) << rank.output;
    DistEmbedding alone(LearnedTableOptions{.rows = 100, .width = 6, .seed = 4, .optimizer = {.lr = 0.1}});
    World world;
    for (std::int64_t step = 0; step < kSteps; ++step) {  // one rank with the average of their gradients
      torch::Tensor gradient = torch::zeros({100});
      for (std::int64_t r = 0; r < ranks; ++r) {
        if (r > 0) gradient.narrow(0, step, 10 * r).add_(r + 1);
        if (r > 0 || step % 2 == 0) gradient[7].add_(2 * (r + 1));
      }
      const torch::Tensor ids = gradient.nonzero().flatten();
      const torch::Tensor rows = alone->forward(ids);
      (rows.sum(1) * gradient.index_select(0, ids) / ranks).sum().backward();
      alone->step(world);
    }
    alone->eval();
    const torch::Tensor expected = alone->forward(torch::arange(100)).flatten();
    const std::vector<float> first = floats_of(out + ".0");
    ASSERT_EQ(first.size(), 600U);
    EXPECT_TRUE(torch::allclose(torch::tensor(first), expected, 1e-5, 1e-5)) << ranks << " ranks";
    for (int r = 1; r < ranks; ++r) EXPECT_EQ(floats_of(out + "." + std::to_string(r)), first) << r;
  }
}

TEST(World, ATrainerThatDies_TheOthersGetAnErrorInOneLine) {
  const auto ranks = run_ranks({program("gradient_rank"), "--die", "1"}, 2);
  EXPECT_EQ(ranks[1].status, 128 + 9);
  EXPECT_EQ(ranks[0].status, 10 + static_cast<int>(ErrorCode::kPeerDied)) << ranks[0].output;
  EXPECT_NE(ranks[0].output.find("another trainer is gone"), std::string::npos) << ranks[0].output;
}

TEST(World, WorkThatTakesLongerThanRanksWait_IsDone_AndWhyItFailedAllHear) {
  const auto ranks = run_ranks({program("gradient_rank"), "--together"}, 2);
  for (const auto& rank : ranks)
    EXPECT_EQ(rank.status, 10 + static_cast<int>(ErrorCode::kNoSpace)) << rank.output;
  EXPECT_EQ(ranks[0].output, "rank 1: the disk is full\n");
  EXPECT_EQ(ranks[1].output, "the disk is full\n");
}

TEST(World, AStorePortInUseIsNamed) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const auto result =
      run_program({program("gradient_rank"), "--die", "1"},
                  {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
  close(fd);
  EXPECT_EQ(result.status, 10 + static_cast<int>(ErrorCode::kIo));
  EXPECT_NE(result.output.find(port + " is in use"), std::string::npos) << result.output;
}

TEST(World, NcclWithoutAGpuSaysSo) {
  try {
    World world({.backend = "nccl"});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("use --backend gloo"), std::string::npos) << error.what();
    return;
  }
  EXPECT_TRUE(std::filesystem::exists("/dev/nvidia0")) << "accepted without a GPU";
}

}  // namespace
}  // namespace hopfeed
