// Random graphs of one type by the thousand, larger than those of kinds_oracle_test.cc: batches of plain
// neighbour sampling against the serial oracle, field by field, and of shuffled epochs.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/core/random_graphs.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::ints;
using Ints = std::vector<std::int64_t>;

testing::TypedGraph typed(const testing::TinyGraph& graph) {
  return {.nodes = {{.count = graph.num_nodes, .x = graph.x, .x_width = graph.x_width, .y = graph.y}},
          .edges = {{.sources = graph.src, .destinations = graph.dst}}};
}

// F30
TEST(SamplerOracle, RandomGraphsGiveTheSameBatchFieldByField) {
  std::mt19937_64 random(20'261'121);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  testing::TempFolder folder;
  for (int round = 0; round < testing::num_random_graphs(); ++round) {
    const std::int64_t n = 1 + below(300);
    const auto graph = testing::random_graph({.num_nodes = n,
                                              .num_edges = below(8 * n),
                                              .x_width = 1 + below(6),
                                              .num_train = 1 + below(n),
                                              .seed = random()});
    const testing::TypedGraph as_typed = typed(graph);
    auto cut = testing::random_cut(graph, 1 + static_cast<int>(below(4)), random());
    cut.wide_ids = below(2);
    testing::write_tiny_dataset(folder.path() / "graph", graph, cut);
    const Dataset dataset(folder.path() / "graph");
    for (int batch = 0; batch < 3; ++batch) {
      BatchOptions options{.fanouts = {}, .replace = below(2) == 1, .edge_ids = below(2) == 1};
      const std::int64_t choices[] = {-1, 0, 1, 2, 3, 5, 15, 16, 17, 40};
      for (std::int64_t hops = below(4); hops > 0; --hops) options.fanouts.push_back(choices[below(10)]);
      Ints seeds;
      for (std::int64_t count = 1 + below(40); count > 0; --count) seeds.push_back(below(n));
      const NodeList list(seeds, {.node_type = 0, .shuffle = false});
      BatchMaker maker(dataset, list, options);
      const std::int64_t first = below(list.size());
      const BatchKey key{
          .seed = random(), .epoch = below(100), .first = first, .count = 1 + below(list.size() - first)};
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch));
      const auto block = testing::make_block(maker, key);
      const Ints part(seeds.begin() + first, seeds.begin() + first + key.count);
      testing::expect_same(block.view(), testing::serial_sample(as_typed, 0, part, options, key), as_typed, 0,
                           options);
      EXPECT_LE(block.size(), maker.max_block_bytes(key.count));
      EXPECT_EQ(block.view().key(), key);
      if (HasFailure()) return;
    }
  }
}

TEST(SamplerOracle, ShuffledEpochsCoverEachSeedOnceAndInputIdNamesItsPosition) {
  testing::TempFolder folder;
  const auto graph =
      testing::random_graph({.num_nodes = 400, .num_edges = 3'000, .num_train = 230, .seed = 5});
  testing::write_tiny_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  const auto train = dataset.split(0, "train");
  const NodeList list(train, {.node_type = 0, .shuffle = true});
  BatchMaker maker(dataset, list, {.fanouts = {3}});
  std::set<std::int64_t> seen;
  for (std::int64_t first = 0; first < list.size(); first += 23) {
    const auto block = testing::make_block(maker, {.seed = 4, .epoch = 2, .first = first, .count = 23});
    const auto input = ints(block.view().input_id());
    const auto n_id = block.view().n_id();
    for (std::size_t i = 0; i < input.size(); ++i) EXPECT_EQ(n_id[i], train[input[i]]);
    seen.insert(input.begin(), input.end());
  }
  EXPECT_EQ(seen.size(), train.size());
}

}  // namespace
}  // namespace hopfeed
