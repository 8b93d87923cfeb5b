// After it has seen the batches once, a sampler makes them again without asking anybody for memory.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/draws/excluded_edges.h"
#include "core/maker/batch_maker.h"
#include "core/sampler/row_reader.h"
#include "core/sampler/sampler_registry.h"
#include "tests/core/all_kinds.h"
#include "tests/core/counted_allocations.h"

namespace hopfeed {
namespace {

using testing::allocations;

/// How much is allocated by batches that were made once before.
std::int64_t allocated_in_steady_state(BatchMaker& maker, std::int64_t positions) {
  ScratchArray<std::byte> block;
  block.reserve(maker.max_block_bytes(64));
  const auto make_all = [&] {
    for (std::int64_t first = 0; first + 64 <= positions; first += 64) {
      const std::size_t bytes = maker.sample({.seed = 1, .epoch = 0, .first = first, .count = 64});
      maker.write({block.data(), bytes});
    }
  };
  make_all();
  const std::int64_t before = allocations();
  make_all();
  const std::int64_t steady = allocations() - before;
  const std::vector<int> one{1};
  EXPECT_EQ(allocations() - before - steady, 1) << "the counter counts";
  return steady;
}

std::int64_t allocated_in_steady_state(const Dataset& dataset, const BatchOptions& options) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 500; ++i) ids.push_back(i % 400);  // some seeds repeat
  const NodeList seeds(ids, {});
  BatchMaker maker(dataset, seeds, options);
  return allocated_in_steady_state(maker, seeds.size());
}

/// What is allocated in a steady state by links of an edge type between two node types.
std::int64_t allocated_by_links(const Dataset& dataset, BatchOptions options,
                                const NegativeOptions& negatives, std::int64_t time = 60) {
  options.link = {.edge_type = "r1", .negatives = negatives};
  std::vector<std::int64_t> pairs, times(500, time);
  for (std::int64_t i = 0; i < 500; ++i) pairs.insert(pairs.end(), {i % 300, i % 400});
  const LinkList links(pairs, {.edge_type = dataset.meta().edge_type("r1"), .times = times});
  BatchMaker maker(dataset, links, options);
  return allocated_in_steady_state(maker, links.size());
}

class SteadyState : public ::testing::TestWithParam<testing::Kind> {
 protected:
  void SetUp() override { testing::register_own_sampler(); }
};

TEST_P(SteadyState, BatchesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  testing::write_all_kinds_graph(folder.path() / "data", 3);
  EXPECT_EQ(allocated_in_steady_state(Dataset(folder.path() / "data"), GetParam().options), 0);
}

TEST_P(SteadyState, BatchesOfSeveralTypesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  testing::write_all_kinds_types(folder.path() / "data", 3);
  const BatchOptions options = testing::of_types(GetParam().options);
  if (options.subgraph == Subgraph::kBidirectional) {
    EXPECT_THROW(allocated_in_steady_state(Dataset(folder.path() / "data"), options), Error)
        << "r1 has no reverse";
    return;
  }
  EXPECT_EQ(allocated_in_steady_state(Dataset(folder.path() / "data"), options), 0);
}

TEST(SteadyStateOfLinks, BatchesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  testing::write_all_kinds_types(folder.path() / "data", 3);
  const Dataset dataset(folder.path() / "data");
  const NegativeOptions binary{.mode = NegativeMode::kBinary, .strict = true, .src_weight = "time"},
      triplet{.mode = NegativeMode::kTriplet, .amount = 3, .dst_weight = "time"};
  for (const NegativeOptions& negatives : {NegativeOptions{}, binary, triplet}) {
    EXPECT_EQ(allocated_by_links(dataset, {.fanouts = {5, 5}}, negatives), 0);
    EXPECT_EQ(allocated_by_links(dataset, {.fanouts = {5, 5}, .time = "time"}, negatives), 0);
    EXPECT_EQ(allocated_by_links(dataset, {.fanouts = {5, 5}, .time = "time"}, negatives, 9), 0);
    EXPECT_EQ(allocated_by_links(dataset, {.fanouts = {5, 5}, .weight = "weight"}, negatives), 0);
  }
}

// All pairs but one are edges, so that most negatives are found by weighing what is left from end to end.
TEST(SteadyStateOfLinks, NegativesThatDrawsDoNotFind_AllocateNothing) {
  testing::TypedGraph graph{.nodes = {{.name = "a", .count = 40}, {.name = "b", .count = 30}},
                            .edges = {{.src = "a", .rel = "r", .dst = "b"}}};
  std::vector<std::int64_t> pairs;
  for (std::int64_t u = 0; u < 40; ++u) {
    for (std::int64_t v = 0; v < 30; ++v) {
      if (u == 7 && v == 11) continue;
      graph.edges[0].sources.push_back(u);
      graph.edges[0].destinations.push_back(v);
      if (u == 7) pairs.insert(pairs.end(), {u, v});
    }
  }
  while (pairs.size() < 2 * 128) pairs.insert(pairs.end(), {7, 3});
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "data", graph);
  const Dataset dataset(folder.path() / "data");
  const LinkList links(pairs, {});
  for (const NegativeMode mode : {NegativeMode::kBinary, NegativeMode::kTriplet}) {
    BatchOptions options{.fanouts = {5}};
    options.link = {.edge_type = "r", .negatives = {.mode = mode, .strict = true}};
    BatchMaker maker(dataset, links, options);
    EXPECT_EQ(allocated_in_steady_state(maker, links.size()), 0);
  }
}

TEST_P(SteadyState, Scratch_DoesNotGrowOnceItHasSeenTheBatches) {
  const testing::TempFolder folder;
  testing::write_all_kinds_graph(folder.path() / "data", 4);
  const Dataset dataset(folder.path() / "data");
  const std::unique_ptr<Sampler> sampler = make_sampler(dataset, GetParam().options);
  std::vector<std::int64_t> seeds(64);
  const std::vector<std::int64_t> seed_times(64, 30);
  const auto sample_all = [&] {
    for (std::int64_t first = 0; first < 7; ++first) {
      for (std::int64_t i = 0; i < 64; ++i) seeds[static_cast<std::size_t>(i)] = first * 64 + i;
      const TypedSeeds typed{.node_type = 0, .ids = seeds, .times = seed_times};
      sampler->sample({.key = {.seed = 1, .epoch = 0, .first = first, .count = 64}, .seeds = {&typed, 1}});
    }
  };
  sample_all();
  const std::size_t bytes = sampler->scratch_bytes();
  sample_all();
  EXPECT_EQ(sampler->scratch_bytes(), bytes);
  EXPECT_GT(bytes, 500u * sizeof(std::uint32_t));
  const NodeList list(seeds, {});
  const BatchMaker maker(dataset, list, GetParam().options);
  const BatchMaker::Scratch scratch = maker.scratch(64);
  EXPECT_LE(bytes, scratch.at_most) << "what memory is checked for at start";
  EXPECT_LE(scratch.tables, scratch.at_most);
  if (!GetParam().options.labor) {
    EXPECT_GE(bytes, scratch.tables) << "layer-dependent draws alone take theirs where it pays";
  }
}

TEST_P(SteadyState, SamplesWithExcludedEdgesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  testing::write_all_kinds_graph(folder.path() / "data", 5);
  const Dataset dataset(folder.path() / "data");
  const std::unique_ptr<Sampler> sampler = make_sampler(dataset, GetParam().options);
  const RowReader reader(dataset, 0);
  ExcludedEdges excluded;
  std::vector<std::int64_t> seeds(64);
  const std::vector<std::int64_t> seed_times(64, 30);
  std::int64_t pairs = 0;
  const auto sample_all = [&] {
    for (std::int64_t first = 0; first < 7; ++first) {
      excluded.begin(1);
      for (std::int64_t i = 0; i < 64; ++i) {
        const std::int64_t seed = seeds[static_cast<std::size_t>(i)] = first * 64 + i;
        const Row row = reader.row(seed);
        for (std::uint64_t k = 0; k < row.degree; k += 3, ++pairs)
          excluded.add(0, reader.neighbor(row, k), seed);
      }
      excluded.finish();
      const TypedSeeds entry{.node_type = 0, .ids = seeds, .times = seed_times};
      sampler->sample({.key = {.seed = 1, .epoch = 0, .first = first, .count = 64},
                       .seeds = {&entry, 1},
                       .excluded = &excluded});
    }
  };
  sample_all();
  const std::size_t bytes = sampler->scratch_bytes();
  const std::int64_t before = allocations();
  sample_all();
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(sampler->scratch_bytes(), bytes);
  EXPECT_GT(pairs, 2'000);
}

INSTANTIATE_TEST_SUITE_P(Options, SteadyState, ::testing::ValuesIn(testing::all_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
