// hopfeed-partition cluster: clusters that METIS finds, made once, kept by every cut, and read by the cluster
// sampler.
#include <gtest/gtest.h>

#include "core/base/json_text.h"
#include "partition_tool/node_clusters.h"
#include "tests/partition_tool/run_program.h"
#include "tests/partition_tool/typed_raw_graph.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using nlohmann::json;
using testing::TempFolder;
using testing::ToolResult;

TEST(NodeClusters, AreNumberedByTheirFirstNodesAndEmptyOnesLeftOut) {
  testing::TinyGraph tiny;
  tiny.num_nodes = 5;
  tiny.src = {0, 1, 2, 3, 3};
  tiny.dst = {1, 2, 3, 4, 3};
  const std::vector<std::int32_t> partition_of{7, 2, 7, 4, 4};
  const NodeClusters clusters = make_clusters(testing::raw_graph_of(tiny), partition_of, 9);
  EXPECT_EQ(clusters.cluster_of, (Ints{0, 1, 0, 2, 2}));
  EXPECT_EQ(clusters.sizes, (Ints{2, 1, 2}));
  EXPECT_EQ(clusters.edges_cut, 3);
}

TEST(NodeClusters, SeeTheEdgesBetweenNodesOfTheirTypeAlone) {
  const testing::TypedGraph typed{
      .nodes = {{.name = "a", .count = 3}, {.name = "b", .count = 2, .splits = {{"train", {0}}}}},
      .edges = {{.src = "a", .rel = "to", .dst = "b", .sources = {0, 1}, .destinations = {0, 1}},
                {.src = "b", .rel = "in", .dst = "b", .sources = {1, 0}, .destinations = {0, 0}}}};
  const RawGraph graph = testing::raw_graph_of(typed), alone = graph_of_node_type(graph, 1);
  ASSERT_EQ(alone.edges.size(), 1U);
  EXPECT_EQ(alone.nodes[0].count, 2);
  EXPECT_EQ(alone.edges[0].rel, "in");
  EXPECT_EQ(alone.num_edges(), 2);
  EXPECT_EQ(alone.training_nodes(), Ints{});  // METIS balances nodes, not training nodes
  try {
    graph_of_node_type(graph, 0);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no edge type connects the nodes of type 'a'"),
              std::string::npos)
        << error.what();
  }
}

class ClusterProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    succeed("{} generate made --nodes 600 --edges 6000 --features 4 --classes 3 --seed 1 --homophily 0.9");
  }
  ToolResult run(const std::string& command) {
    return testing::run_shell(scratch_.path(), "cd " + work_.path().string() + "; " + command);
  }
  std::string succeed(const std::string& command) {
    const ToolResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    return result.out;
  }
  void refuse(const std::string& arguments, const std::string& part) {
    const auto before = testing::listing(work_.path());
    const ToolResult result = run("{} cluster " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    const std::string complaint = result.complaint();
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 1) << result.err;
    EXPECT_NE(complaint.find(part), std::string::npos) << complaint;
    EXPECT_EQ(testing::listing(work_.path()), before);
  }
  json report(const std::string& name) const { return parse_json(testing::file_bytes(work_.path() / name)); }
  const TempFolder work_, scratch_;
};

// The whole way of a user: cluster, cut, sample whole clusters.
TEST_F(ClusterProgram, ClustersAreTheSameWhateverTheCutAndWhateverRanIt) {
  const std::string said = succeed("{} cluster made clusters --clusters 12 --json clusters.json");
  EXPECT_NE(said.find("metis made 12 clusters of "), std::string::npos) << said;
  const json clusters = report("clusters.json")["clusters"];
  EXPECT_EQ(clusters["count"], 12);
  EXPECT_EQ(clusters["edges"], 6000);
  EXPECT_LT(clusters["edges_cut"], 5500);  // random clusters cut 11 of 12
  EXPECT_GT(clusters["edges_cut"], 0);
  EXPECT_GE(clusters["smallest"], 1);
  EXPECT_LE(clusters["largest"], 60);  // 50 each, 5% and a little more
  succeed(
      "{} partition made cut --parts 3 --method random && {} cluster cut again --clusters 12 --threads 1");
  succeed("{} inspect again --json again.json && {} verify again");
  EXPECT_EQ(report("again.json")["fingerprint"], report("clusters.json")["fingerprint"]);
  succeed("{} partition clusters two --parts 2");
  const std::string sample =
      " --sampler cluster --cluster cluster --subgraph induced --batch-size 3 2>/dev/null";
  const std::string batches = succeed("$HOPFEED_BIN/hopfeed-sample clusters --num-workers 1" + sample);
  EXPECT_EQ(std::count(batches.begin(), batches.end(), '\n'), 4);  // 12 clusters, 3 a batch
  EXPECT_EQ(succeed("$HOPFEED_BIN/hopfeed-sample two --num-workers 2" + sample), batches);
}

TEST_F(ClusterProgram, RandomClustersAreDealtEvenly) {
  succeed("{} cluster made random --clusters 7 --method random --attr by_chance --json random.json");
  const json clusters = report("random.json")["clusters"];
  EXPECT_EQ(clusters["attr"], "by_chance");
  EXPECT_EQ(clusters["smallest"], 85);
  EXPECT_EQ(clusters["largest"], 86);
  EXPECT_GT(clusters["edges_cut"], 4000);
}

TEST_F(ClusterProgram, BadInputIsOneLineAndLeavesNothing) {
  refuse("made out --clusters 601", "--clusters 601 is out of range (1 to 600, the nodes of type 'node')");
  refuse("made out --clusters 0", "--clusters");
  refuse("made out", "--clusters is required");
  refuse("made out --clusters 3 --attr x", "attribute 'x' has a name that is taken");
  refuse("made out --clusters 3 --attr batch", "attribute 'batch' has the name of a field that batches have");
  refuse("made out --clusters 3 --attr a/b", "a/b");
  refuse("made out --clusters 3 --node-type user", "user");
  refuse("made out --clusters 3 --method spectral", "give one of: metis, random");
  refuse("made out --clusters 3 --method random --metis-degree 5", "--metis-degree is for --method metis");
  refuse("made made --clusters 3", "--overwrite");
  refuse("nowhere out --clusters 3", "nowhere");
}

// A new fingerprint would hide the damage for good.
TEST_F(ClusterProgram, ADamagedDatasetIsRefused) {
  run("f=made/part-0000/nodes/node/x.npy; printf '\\1' | dd of=$f bs=1 seek=400 conv=notrunc 2>/dev/null");
  refuse("made out --clusters 3", "x.npy");
}

}  // namespace
}  // namespace hopfeed
