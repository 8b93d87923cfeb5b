// Every kind of sampling on random typed graphs, cut and ordered at random, against the serial oracle: each
// field of each batch.
#include <gtest/gtest.h>

#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(KindsOracle, RandomTypedGraphsGiveTheSameBatchFieldByField) {
  testing::Rounds rounds(6);
  testing::TempFolder folder;
  for (int round = 0; round < testing::num_random_graphs(); ++round) {
    const bool empty_type = round % 3 == 0;
    const auto graph = testing::random_typed_graph({.node_types = 1 + rounds.below(4),
                                                    .edge_types = 1 + rounds.below(6),
                                                    .max_nodes = 1 + rounds.below(150),
                                                    .seed = rounds.word(),
                                                    .reverses = rounds.below(2) == 1,
                                                    .empty_type = empty_type});
    const auto path =
        folder.path() /
        std::to_string(round);  // to write over files that are gone costs ext4 three times as much
    testing::write_typed_dataset(path, graph, rounds.cut(graph, 4));
    const Dataset dataset(path);
    dataset.verify([](std::uint64_t, std::uint64_t) {});
    for (int batch = 0; batch < 3; ++batch) {
      int type = static_cast<int>(rounds.below(std::ssize(graph.nodes) - (empty_type ? 1 : 0)));
      const BatchOptions options = rounds.options(graph, type);
      if (options.sampler == BatchOptions::kClusterSampler) type = 0;  // whose clusters they are
      Ints seeds;
      for (std::int64_t count = 1 + rounds.below(30); count > 0; --count)
        seeds.push_back(rounds.below(graph.nodes[type].count));
      const NodeList list(seeds, {.node_type = type, .shuffle = false});
      const BatchKey key = rounds.key(list.size());
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", options " +
                   options.to_json());
      BatchMaker maker(dataset, list, options);
      const auto block = testing::make_block(maker, key);
      const Ints part(seeds.begin() + key.first, seeds.begin() + key.first + key.count);
      testing::expect_same(block.view(), testing::serial_sample(graph, type, part, options, key), graph, type,
                           options);
      EXPECT_LE(block.size(), maker.max_block_bytes(key.count));
      if (HasFailure()) return;
    }
  }
}

// A cut is written once and sampled in many ways.
TEST(KindsOracle, TheCutIsInvisible) {
  testing::Rounds rounds(7);
  testing::TempFolder folder;
  for (int round = 0; round < 8; ++round) {
    const auto graph = testing::random_typed_graph({.seed = rounds.word(), .reverses = round % 2 == 1});
    const testing::ManyCuts cuts(folder.path(), graph, rounds);
    for (int batch = 0; batch < 12; ++batch) {
      const BatchOptions options = rounds.options(graph, 0);
      cuts.expect_same(options, [&](const Dataset& dataset) {
        const NodeList list(dataset.split(0, "train"), {.node_type = 0, .shuffle = true});
        BatchMaker maker(dataset, list, options);
        return testing::make_block(maker, {.seed = 3, .epoch = 1, .first = 0, .count = list.size()})
            .view()
            .digest();
      });
    }
  }
}

}  // namespace
}  // namespace hopfeed
