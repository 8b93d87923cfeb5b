// Links as seeds on random typed graphs, cut and ordered at random, under every kind of sampling, with every
// kind of negatives, against the serial oracle: each field of each batch. Kinds that make no sense with the
// links are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/core/random_links.h"
#include "tests/oracle/link_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::makes_sense;
using testing::pairs_of;
using testing::part_of;
using Rounds = testing::LinkRounds;

std::string refusal(const Dataset& dataset, const LinkList& list, const BatchOptions& options) {
  try {
    const BatchMaker maker(dataset, list, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

TEST(LinkOracle, RandomGraphsGiveTheSameBatchFieldByField) {
  Rounds rounds(20'261'122);
  testing::TempFolder folder;
  int made = 0, refused = 0, senseless = 0;
  std::map<std::string, int> kinds;
  for (int round = 0; round < testing::num_random_graphs(); ++round) {
    const testing::TypedGraph graph = rounds.graph();
    testing::TypedCut cut = rounds.cut(graph, 3);
    cut.by_id = rounds.below(2) == 1;
    // Each in a folder of its own: where files have just been deleted, the file system is slow to make new
    // ones.
    const auto path = folder.path() / std::to_string(round);
    testing::write_typed_dataset(path, graph, cut);
    const Dataset dataset(path);
    for (int batch = 0; batch < 3; ++batch) {
      testing::SerialLinks links = rounds.links(graph);
      const BatchOptions options = rounds.options(graph, links);
      const Ints pairs = pairs_of(links);
      const LinkList list(
          pairs,
          {.edge_type = links.edge_type, .shuffle = false, .labels = links.labels, .times = links.times});
      const BatchKey key = rounds.key(list.size());
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", options " +
                   options.to_json());
      const testing::SerialLinks part = part_of(links, key.first, key.count);
      if (!makes_sense(graph, links, options)) {
        const std::string said = refusal(dataset, list, options);
        EXPECT_TRUE(said.starts_with("walks by this metapath begin at node type '") ||
                    said.find("is not between 0 and") != std::string::npos)
            << said;
        ++senseless;
        continue;
      }
      const auto expected = testing::serial_links(graph, part, options, key);
      BatchMaker maker(dataset, list, options);
      if (!expected) {
        EXPECT_THROW(maker.sample(key), Error);
        ++refused;
        continue;
      }
      const auto block = testing::make_block(maker, key);
      testing::expect_same_links(block.view(), *expected, part, graph, options);
      const Ints input = testing::ints(block.view().get("input_id", Store::kEdge, links.edge_type));
      for (std::int64_t i = 0; i < key.count; ++i)
        EXPECT_EQ(input[static_cast<std::size_t>(i)], key.first + i);
      EXPECT_LE(block.size(), maker.max_block_bytes(key.count));
      EXPECT_LE(maker.scratch_bytes(), maker.scratch(key.count).at_most) << "what memory is checked for";
      ++made;
      ++kinds[options.sampler];
      kinds["induced"] += options.subgraph == Subgraph::kInduced;
      kinds["bidirectional"] += options.subgraph == Subgraph::kBidirectional;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(made, 2 * testing::num_random_graphs());
  EXPECT_GT(refused, 0) << "links without a negative that could be";
  EXPECT_GT(senseless, testing::num_random_graphs() / 20);
  for (const char* kind : {"walk", "cluster", "induced", "bidirectional"})
    EXPECT_GT(kinds[kind], testing::num_random_graphs() / 20) << kind;
}

TEST(LinkOracle, TheCutIsInvisible) {
  Rounds rounds(7);
  testing::TempFolder folder;
  int compared = 0;
  for (int round = 0; round < 20; ++round) {
    const testing::TypedGraph graph = rounds.graph();
    const testing::ManyCuts cuts(folder.path(), graph, rounds);
    for (int batch = 0; batch < 6; ++batch) {
      testing::SerialLinks links = rounds.links(graph);
      const BatchOptions options = rounds.options(graph, links);
      const Ints pairs = pairs_of(links);
      const std::uint64_t digest = cuts.expect_same(options, [&](const Dataset& dataset) -> std::uint64_t {
        const LinkList list(pairs,
                            {.edge_type = links.edge_type, .labels = links.labels, .times = links.times});
        try {
          BatchMaker maker(dataset, list, options);
          return testing::make_block(maker, {.seed = 3, .epoch = 1, .first = 0, .count = list.size()})
              .view()
              .digest();
        } catch (const Error&) {
          return 0;  // no negative, or a kind that makes no sense with the links
        }
      });
      compared += digest != 0;
    }
  }
  EXPECT_GT(compared, 80);
}

}  // namespace
}  // namespace hopfeed
