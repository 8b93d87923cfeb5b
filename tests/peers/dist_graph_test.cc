// A graph on several machines as one: sizes, places, degrees and features of any nodes; and the seeds that
// each trainer takes beside its partition.
#include <algorithm>
#include <cstring>
#include <set>

#include "core/seeds/split_by_partition.h"
#include "peers/dist_graph.h"
#include "tests/peers/machines_fixture.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

class DistGraphTest : public LoaderTestWithin<60> {
 protected:
  void expect_the_whole_graph(const std::filesystem::path& folder);
};

void DistGraphTest::expect_the_whole_graph(const std::filesystem::path& folder) {
  PeerServers servers(folder.string());
  const DistGraph whole(path(3));
  Ints nodes;
  for (std::int64_t v = 0; v < whole.num_nodes(); v += 3) nodes.push_back(v);
  for (int machine = 0; machine < 3; ++machine) {
    const DistGraph graph(folder, servers.machine(machine));
    EXPECT_EQ(graph.partitions(), std::vector<int>{machine});
    EXPECT_EQ(graph.num_nodes(), 400);
    EXPECT_EQ(graph.num_edges(), 4'000);
    EXPECT_EQ(graph.partition_of(0, nodes), whole.partition_of(0, nodes));
    EXPECT_EQ(graph.in_degrees(0, nodes), whole.in_degrees(0, nodes));
    EXPECT_EQ(graph.features(0, "x", nodes), whole.features(0, "x", nodes));
    EXPECT_EQ(error_of([&] { graph.in_degrees(0, Ints{400}); }).substr(0, 8), "invalid:");
  }
  std::int64_t degrees = 0;
  Ints all(400);
  for (std::int64_t v = 0; v < 400; ++v) all[static_cast<std::size_t>(v)] = v;
  for (const std::int64_t degree : whole.in_degrees(0, all)) degrees += degree;
  EXPECT_EQ(degrees, 4'000);
}

TEST_F(DistGraphTest, EachMachineSeesTheWholeGraph) { expect_the_whole_graph(path(3)); }

TEST_F(DistGraphTest, SoItDoesWithShardedIds) { expect_the_whole_graph(path(3).parent_path() / "sharded3"); }

/// The share of a trainer's seeds that lie in its partition.
double local_share(const Dataset& dataset, std::span<const std::int64_t> seeds, int partition) {
  std::int64_t local = 0;
  const auto& offsets = dataset.meta().node_types[0].partition_offsets;
  for (const std::int64_t seed : seeds)
    local += partition_of(offsets, dataset.dataset_id(0, seed)) == partition;
  return static_cast<double>(local) / static_cast<double>(seeds.size());
}

TEST_F(DistGraphTest, NodeSplit_GivesEachSeedOnceAndOwnOnesFirst) {
  const Dataset dataset(path(3));
  const std::span<const std::int64_t> train = dataset.split(0, "train");
  for (const std::int64_t world : {1, 2, 3, 4, 6, 7}) {
    for (const bool even : {true, false}) {
      std::multiset<std::int64_t> seen;
      std::size_t least = train.size(), most = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const Ints mine =
            node_split(dataset, 0, train, {.rank = rank, .world_size = world, .force_even = even});
        seen.insert(mine.begin(), mine.end());
        least = std::min(least, mine.size());
        most = std::max(most, mine.size());
        if (world >= 3) {
          EXPECT_GT(local_share(dataset, mine, partition_of_rank(rank, world, 3)), 0.5)
              << "a third by chance";
        }
      }
      EXPECT_EQ(seen, std::multiset<std::int64_t>(train.begin(), train.end())) << world << " trainers";
      EXPECT_TRUE(!even || most - least <= 1) << world << " trainers";
    }
  }
  EXPECT_NE(
      error_of([&] { node_split(dataset, 0, train, {.rank = 2, .world_size = 2}); }).find("rank 2 of 2"),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              node_split(dataset, 0, train.first(1), {.rank = 0, .world_size = 2});
            }).find("each needs one at least"),
            std::string::npos);
}

TEST_F(DistGraphTest, EdgeSplit_GivesEachLinkOnceByItsDestination) {
  const Dataset dataset(path(2));
  Ints pairs;
  for (std::int64_t v = 0; v < 300; ++v) pairs.insert(pairs.end(), {v, (v * 7) % 400});
  std::multiset<std::int64_t> seen;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Ints mine = edge_split(dataset, 0, pairs, {.rank = rank, .world_size = 4});
    EXPECT_EQ(mine.size(), 75u);
    Ints destinations;
    for (const std::int64_t position : mine)
      destinations.push_back(pairs[static_cast<std::size_t>(2 * position + 1)]);
    EXPECT_GT(local_share(dataset, destinations, partition_of_rank(rank, 4, 2)), 0.7);
    seen.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(seen.size(), 300u);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 300u);
}

}  // namespace
}  // namespace hopfeed
