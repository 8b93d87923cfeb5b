// hopfeed-partition hotness: another order inside the same partitions, the same content, the same batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/json_text.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/dataset/dataset_meta.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "partition_tool/hotness/hotness_policy.h"
#include "tests/partition_tool/program_fixture.h"

namespace hopfeed {
namespace {

class HotnessProgram : public PartitionProgram {
 protected:
  void SetUp() override {
    make_small("whole");
    succeed("partition whole made --parts 3 --method random --seed 2 --fanouts 4,3 --batch-size 32");
  }
};

std::vector<int> partitions_of(const Dataset& dataset) {
  std::vector<int> partitions;
  for (std::int64_t v = 0; v < dataset.num_nodes(0); ++v)
    partitions.push_back(
        partition_of(dataset.meta().node_types[0].partition_offsets, dataset.dataset_id(0, v)));
  return partitions;
}

std::vector<std::int64_t> order_of(const Dataset& dataset) {
  std::vector<std::int64_t> order;
  for (std::int64_t id = 0; id < dataset.num_nodes(0); ++id) order.push_back(dataset.original_id(0, id));
  return order;
}

/// The digests of the batches of an epoch, with all attributes, in original ids.
std::vector<std::uint64_t> digests_of(const Dataset& dataset) {
  const NodeList list(dataset.split(0, "train"), {});
  BatchMaker maker(dataset, list, {.fanouts = {5, 3}, .edge_ids = true});
  AlignedBlock buffer;
  std::vector<std::uint64_t> digests;
  for (std::int64_t first = 0; first + 8 <= list.size(); first += 8) {
    const auto block = buffer.resize(maker.sample({.seed = 3, .epoch = 1, .first = first, .count = 8}));
    maker.write(block);
    digests.push_back(BatchView(block).digest());
  }
  return digests;
}

TEST_F(HotnessProgram, EveryPolicyKeepsCutContentAndBatches) {
  const Dataset input(work() / "made");
  const std::vector<std::uint64_t> batches = digests_of(input);
  ASSERT_GT(batches.size(), 2U);
  for (const std::string policy : {"vip", "degree", "presample", "oracle"}) {
    succeed("hotness made " + policy + " --policy " + policy + " --epochs 2 --json report.json");
    succeed("verify " + policy);
    const Dataset output(work() / policy);
    EXPECT_EQ(output.meta().fingerprint, input.meta().fingerprint);
    EXPECT_EQ(partitions_of(output), partitions_of(input)) << policy;
    EXPECT_EQ(output.meta().cut.method, "random");
    EXPECT_EQ(output.meta().cut.policy, policy);
    EXPECT_EQ(output.meta().cut.edges_cut, input.meta().cut.edges_cut);
    EXPECT_EQ(order_of(output) == order_of(input), policy == "vip") << policy;
    EXPECT_EQ(digests_of(output), batches) << policy;
    EXPECT_EQ(read_json("report.json")["policy"], policy);
  }
}

TEST_F(HotnessProgram, DegreeOrdersByEdgesThatLeave_TiesBySmallerId) {
  succeed("hotness made out --policy degree");
  const Dataset dataset(work() / "out");
  std::vector<std::int64_t> leave(dataset.num_nodes(0));
  for (const auto& row : testing::rows_by_original_id(dataset))
    for (const testing::InEdge& edge : row) ++leave[edge.source];
  const std::vector<std::int64_t> order = order_of(dataset),
                                  &offsets = dataset.meta().node_types[0].partition_offsets;
  for (int p = 0; p < 3; ++p) {
    EXPECT_TRUE(std::is_sorted(
        order.begin() + offsets[p], order.begin() + offsets[p + 1],
        [&](std::int64_t a, std::int64_t b) { return leave[a] != leave[b] ? leave[a] > leave[b] : a < b; }))
        << p;
    for (std::int64_t i = offsets[p]; i < offsets[p + 1]; ++i)
      EXPECT_EQ(dataset.hotness(0, p)[i - offsets[p]], static_cast<double>(leave[order[i]]));
  }
}

TEST_F(HotnessProgram, PartitionsSeeTheirOwnTrainingNodes) {
  succeed("hotness made out --policy oracle --fanouts 2 --batch-size 7 --seed 4");
  const Dataset input(work() / "made"), output(work() / "out");
  const auto train = input.split(0, "train");
  const std::vector<std::int64_t>& offsets = input.meta().node_types[0].partition_offsets;
  for (int p = 0; p < 3; ++p) {
    std::vector<std::int64_t> own;
    std::ranges::copy_if(train, std::back_inserter(own),
                         [&](std::int64_t v) { return partition_of(offsets, input.dataset_id(0, v)) == p; });
    ASSERT_FALSE(own.empty());
    const auto reads = node_hotness(input, HotnessPolicy::kOracle,
                                    {.batch = {.fanouts = {2}}, .batch_size = 7, .seeds = own, .seed = 4})[0];
    const auto hot = output.hotness(0, p);
    for (std::int64_t i = 0; i < std::ssize(hot); ++i)
      EXPECT_EQ(hot[i], reads[input.dataset_id(0, output.original_id(0, offsets[p] + i))]) << p;
    EXPECT_TRUE(std::is_sorted(hot.begin(), hot.end(), std::greater<>()));
    EXPECT_GT(hot[0], 0);
  }
}

TEST_F(HotnessProgram, AnyNumberOfThreadsGivesTheSameFiles) {
  for (const std::string policy : {"degree", "presample"}) {
    succeed("hotness made one --threads 1 --overwrite --policy " + policy);
    succeed("hotness made three --threads 3 --overwrite --policy " + policy);
    EXPECT_EQ(order_of(Dataset(work() / "one")), order_of(Dataset(work() / "three"))) << policy;
    EXPECT_EQ(testing::file_bytes(work() / "one/part-0001/nodes/node/hotness.npy"),
              testing::file_bytes(work() / "three/part-0001/nodes/node/hotness.npy"))
        << policy;
  }
}

TEST_F(HotnessProgram, TypedGraphsAreOrderedTypeByType) {
  succeed("generate typed --kind bipartite --users 200 --items 300 --interactions 4000 --seed 1");
  for (const std::string policy : {"vip", "degree", "presample"}) {
    succeed("hotness typed " + policy + " --policy " + policy);
    succeed("verify " + policy);
    EXPECT_EQ(Dataset(work() / policy).meta().fingerprint, Dataset(work() / "typed").meta().fingerprint);
  }
}

// As of an earlier hopfeed's policies: the name is told, and nothing else asks for it.
TEST_F(HotnessProgram, ADatasetOrderedByAPolicyThatIsNoMoreOpens_AndIsOrderedAnew) {
  const std::filesystem::path file = work() / "made/meta.json";
  DatasetMeta meta = parse_meta(testing::file_bytes(file), "meta.json");
  meta.cut.policy = "pagerank";
  std::ofstream(file, std::ios::binary) << seal_meta(format_meta(meta));
  const std::vector<std::uint64_t> batches = digests_of(Dataset(work() / "made"));
  succeed("verify made");
  succeed("inspect made");
  succeed("convert made narrow --attr x=float16");
  succeed("hotness made out");
  succeed("verify out");
  EXPECT_EQ(Dataset(work() / "out").meta().cut.policy, "vip");
  EXPECT_EQ(digests_of(Dataset(work() / "out")), batches);
  for (const std::string gone : {"pagerank", "random"})
    refuse("hotness made again --policy " + gone,
           "there is no policy '" + gone + "'; choose one of vip, degree, presample, oracle");
}

TEST_F(HotnessProgram, RefusalsAreOneLineAndLeaveNothing) {
  refuse("hotness made out --policy hottest", "there is no policy 'hottest'; choose one of vip, degree");
  refuse("hotness made out --epochs 0", "--epochs");
  refuse("hotness nowhere out", "nowhere");
  refuse("hotness made whole", "whole");  // is there: --overwrite
}

TEST_F(HotnessProgram, DamagedInputLeavesNothing) {
  const std::filesystem::path file = work() / "made/part-0000/edges/node__to__node/indices.npy";
  std::string bytes = testing::file_bytes(file);
  bytes[bytes.size() - 1] = '\x7f';
  std::ofstream(file, std::ios::binary) << bytes;
  refuse("hotness made out --policy degree", "indices.npy");
}

}  // namespace
}  // namespace hopfeed
