// Every kind of sampling where partitions lie on several machines, against the serial oracle: each field of
// each batch, nodes and links as seeds, on random typed graphs, cut and ordered at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.h"
#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/core/random_links.h"
#include "tests/oracle/link_oracle.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/machines.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

// Each is opened by all of its machines, which takes the kernel longer than all else.
int num_graphs() { return testing::num_random_graphs() / 2; }

testing::TypedCut cut_of(const testing::TypedGraph& graph, testing::Rounds& rounds) {
  testing::TypedCut cut =
      testing::random_typed_cut(graph, 1 + static_cast<int>(rounds.below(4)), rounds.word());
  cut.wide_ids = rounds.below(2) == 1;
  cut.halos = rounds.below(2) == 1;
  cut.sharded_ids = rounds.below(2) == 1;
  return cut;
}

TEST(PartitionsOracle, MachinesGiveTheBatchOfOneThatHasTheWholeGraph) {
  testing::Rounds rounds(29);
  testing::TempFolder folder;
  std::map<std::string, int> kinds;
  for (int round = 0; round < num_graphs(); ++round) {
    const bool empty_type = round % 3 == 0;
    const auto graph = testing::random_typed_graph({.node_types = 1 + rounds.below(3),
                                                    .edge_types = 1 + rounds.below(4),
                                                    .max_nodes = 1 + rounds.below(150),
                                                    .seed = rounds.word(),
                                                    .reverses = rounds.below(2) == 1,
                                                    .empty_type = empty_type});
    const auto path = folder.path() / std::to_string(round);
    const testing::TypedCut cut = cut_of(graph, rounds);
    testing::write_typed_dataset(path, graph, cut);
    const testing::Machines machines(path, 1 + static_cast<int>(rounds.below(4)));
    for (int batch = 0; batch < 3; ++batch) {
      int type = static_cast<int>(rounds.below(std::ssize(graph.nodes) - (empty_type ? 1 : 0)));
      const BatchOptions options = rounds.options(graph, type);
      if (options.sampler == BatchOptions::kClusterSampler) type = 0;  // whose clusters they are
      Ints seeds;
      for (std::int64_t count = 1 + rounds.below(30); count > 0; --count)
        seeds.push_back(rounds.below(graph.nodes[type].count));
      const NodeList list(seeds, {.node_type = type, .shuffle = false});
      const BatchKey key = rounds.key(list.size());
      const auto machine = static_cast<std::size_t>(rounds.below(static_cast<std::int64_t>(machines.size())));
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", machine " +
                   std::to_string(machine) + " of " + std::to_string(machines.size()) +
                   (cut.sharded_ids ? ", sharded ids" : "") + ", options " + options.to_json());
      BatchMaker maker(machines.dataset(machine), list, options);
      const auto block = testing::make_block(maker, key);
      const Ints part(seeds.begin() + key.first, seeds.begin() + key.first + key.count);
      testing::expect_same(block.view(), testing::serial_sample(graph, type, part, options, key), graph, type,
                           options);
      EXPECT_LE(block.size(), maker.max_block_bytes(key.count));
      EXPECT_EQ(machines.peers(machine).left(), 0u) << "answers that nobody took";
      kinds[options.sampler] += machines.size() > 1;
      kinds["labor"] += options.labor && machines.size() > 1;
      kinds["time"] += !options.time.empty() && machines.size() > 1;
      kinds["weight"] += !options.weight.empty() && machines.size() > 1;
      if (HasFailure()) return;
    }
  }
  for (const char* kind : {"neighbor", "walk", "cluster", "labor", "time", "weight"})
    EXPECT_GT(kinds[kind], num_graphs() / 20) << kind;
}

TEST(PartitionsOracle, LinksGiveTheBatchOfOneMachineToo) {
  testing::LinkRounds rounds(30);
  testing::TempFolder folder;
  int made = 0, unsupported = 0;
  for (int round = 0; round < num_graphs(); ++round) {
    const testing::TypedGraph graph = rounds.graph();
    testing::TypedCut cut = cut_of(graph, rounds);
    cut.by_id = rounds.below(2) == 1;
    const auto path = folder.path() / std::to_string(round);
    testing::write_typed_dataset(path, graph, cut);
    const testing::Machines machines(path, 1 + static_cast<int>(rounds.below(4)));
    for (int batch = 0; batch < 3; ++batch) {
      testing::SerialLinks links = rounds.links(graph);
      const BatchOptions options = rounds.options(graph, links);
      if (!testing::makes_sense(graph, links, options)) continue;
      const Ints pairs = testing::pairs_of(links);
      const LinkList list(
          pairs,
          {.edge_type = links.edge_type, .shuffle = false, .labels = links.labels, .times = links.times});
      const BatchKey key = rounds.key(list.size());
      const auto machine = static_cast<std::size_t>(rounds.below(static_cast<std::int64_t>(machines.size())));
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", machine " +
                   std::to_string(machine) + " of " + std::to_string(machines.size()) +
                   (cut.sharded_ids ? ", sharded ids" : "") + ", options " + options.to_json());
      const testing::SerialLinks part = testing::part_of(links, key.first, key.count);
      const auto expected = testing::serial_links(graph, part, options, key);
      BatchMaker maker(machines.dataset(machine), list, options);
      // Whether a strict negative that draws do not find is there at all, only the whole graph tells.
      std::string error;
      try {
        const auto block = testing::make_block(maker, key);
        ASSERT_TRUE(expected);
        testing::expect_same_links(block.view(), *expected, part, graph, options);
      } catch (const Error& thrown) {
        error = thrown.what();
      }
      const bool not_found = error.find("found no strict negative") != std::string::npos;
      EXPECT_FALSE(not_found && machines.dataset(machine).whole());
      EXPECT_EQ(error.empty(), expected.has_value() && !not_found) << error;
      unsupported += not_found;
      if (!error.empty()) continue;
      ++made;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(made, 2 * num_graphs());
  EXPECT_GT(unsupported, 0) << "graphs without a strict negative that is found soon";
}

}  // namespace
}  // namespace hopfeed
