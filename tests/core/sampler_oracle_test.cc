// A serial sampler that is obviously right, written on original ids and COO edges alone, against the
// pipeline: random graphs by the thousand, every field of the batch compared.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/draws/keyed_random.h"
#include "tests/core/made_batch.h"
#include "tests/core/random_graphs.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::ints;
using Ints = std::vector<std::int64_t>;

struct Expected {
  Ints n_id, sources, targets, e_id, nodes_per_hop, edges_per_hop, seed_index;
};

// Floyd's algorithm (or plain draws) literally; positions in the row.
Ints draw(const NodeStream& stream, std::int64_t degree, std::int64_t fanout, bool replace) {
  Ints picks;
  if (degree == 0) return picks;
  if (fanout < 0 || (!replace && degree <= fanout)) {
    for (std::int64_t i = 0; i < degree; ++i) picks.push_back(i);
    return picks;
  }
  std::set<std::int64_t> taken;
  for (std::int64_t j = 0; j < fanout; ++j) {
    const auto bound = static_cast<std::uint32_t>(replace ? degree : degree - fanout + j + 1);
    std::int64_t c = draw_below(stream, static_cast<std::uint32_t>(j),
                                stream.words(static_cast<std::uint32_t>(j / 4)).word[j % 4], bound);
    if (!replace && taken.count(c)) c = degree - fanout + j;
    taken.insert(c);
    picks.push_back(c);
  }
  return picks;
}

Expected oracle(const testing::TinyGraph& graph, const Ints& seeds, const BatchOptions& options,
                const BatchKey& key) {
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>
      rows;  // dst -> (src, edge), imported order
  for (std::size_t e = 0; e < graph.src.size(); ++e)
    rows[graph.dst[e]].push_back({graph.src[e], static_cast<std::int64_t>(e)});
  Expected out;
  std::map<std::int64_t, std::int64_t> local;
  const auto local_id = [&](std::int64_t node) {
    const auto [it, fresh] = local.insert({node, static_cast<std::int64_t>(out.n_id.size())});
    if (fresh) out.n_id.push_back(node);
    return it->second;
  };
  for (std::int64_t seed : seeds) out.seed_index.push_back(local_id(seed));
  out.nodes_per_hop.push_back(static_cast<std::int64_t>(out.n_id.size()));
  std::size_t begin = 0;
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    const std::size_t end = out.n_id.size(), edges_before = out.sources.size();
    const NodeStream draws = node_stream({.purpose = Purpose::kNeighbors,
                                          .seed = key.seed,
                                          .epoch = key.epoch,
                                          .first = key.first,
                                          .hop = static_cast<std::uint32_t>(hop)});
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t dst = out.n_id[i];
      const auto& row = rows[dst];
      const NodeStream node = draws.of(static_cast<std::uint64_t>(dst));
      for (std::int64_t position :
           draw(node, static_cast<std::int64_t>(row.size()), options.fanouts[hop], options.replace)) {
        out.sources.push_back(local_id(row[position].first));
        out.targets.push_back(static_cast<std::int64_t>(i));
        out.e_id.push_back(row[position].second);
      }
    }
    out.nodes_per_hop.push_back(static_cast<std::int64_t>(out.n_id.size() - end));
    out.edges_per_hop.push_back(static_cast<std::int64_t>(out.sources.size() - edges_before));
    begin = end;
  }
  return out;
}

void expect_equal(const BatchView& batch, const Expected& expected, const testing::TinyGraph& graph) {
  EXPECT_EQ(ints(batch.n_id()), expected.n_id);
  EXPECT_EQ(testing::source_row(batch), expected.sources);
  EXPECT_EQ(testing::target_row(batch), expected.targets);
  EXPECT_EQ(ints(batch.num_sampled_nodes()), expected.nodes_per_hop);
  EXPECT_EQ(ints(batch.num_sampled_edges()), expected.edges_per_hop);
  EXPECT_EQ(batch.batch_size(), expected.nodes_per_hop[0]);
  if (batch.has("e_id", Store::kEdge)) {
    EXPECT_EQ(ints(batch.get("e_id", Store::kEdge)), expected.e_id);
  }
  const bool repeats = static_cast<std::size_t>(expected.nodes_per_hop[0]) < expected.seed_index.size();
  ASSERT_EQ(batch.has("seed_index", Store::kNode), repeats);
  if (repeats) {
    EXPECT_EQ(ints(batch.get("seed_index", Store::kNode)), expected.seed_index);
  }
  const auto x = batch.get("x", Store::kNode).as<float>();
  const auto y = batch.get("y", Store::kNode).as<std::int64_t>();
  for (std::size_t i = 0; i < expected.n_id.size(); ++i) {
    EXPECT_EQ(y[i], graph.y[expected.n_id[i]]);
    for (std::int64_t f = 0; f < graph.x_width; ++f)
      EXPECT_EQ(x[i * graph.x_width + f], graph.x[expected.n_id[i] * graph.x_width + f]);
  }
}

// F30
TEST(SamplerOracle, RandomGraphsGiveTheSameBatchFieldByField) {
  std::mt19937_64 random(20'261'121);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  testing::TempFolder folder;
  for (int round = 0; round < testing::kRandomGraphs; ++round) {
    const std::int64_t n = 1 + below(300);
    const auto graph = testing::random_graph({.num_nodes = n,
                                              .num_edges = below(8 * n),
                                              .x_width = 1 + below(6),
                                              .num_train = 1 + below(n),
                                              .seed = random()});
    auto cut = testing::random_cut(graph, 1 + static_cast<int>(below(4)), random());
    cut.wide_ids = below(2);
    testing::write_tiny_dataset(folder.path() / "graph", graph, cut);
    const Dataset dataset(folder.path() / "graph");
    for (int batch = 0; batch < 3; ++batch) {
      BatchOptions options{.fanouts = {}, .replace = below(2) == 1, .edge_ids = below(2) == 1};
      const std::int64_t choices[] = {-1, 1, 2, 3, 5, 15, 16, 17, 40};
      for (std::int64_t hops = below(4); hops > 0; --hops) options.fanouts.push_back(choices[below(9)]);
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
      expect_equal(block.view(), oracle(graph, part, options, key), graph);
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
