// After it has seen the batches once, a sampler makes them again without asking anybody for memory.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "core/batch_maker.h"
#include "core/error.h"
#include "core/excluded_edges.h"
#include "core/hop_sampler.h"
#include "core/row_reader.h"
#include "core/sampler_registry.h"
#include "core/scratch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded ? rounded : alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// All of them, so that every allocation of the process is seen.
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes,
                   const std::nothrow_t&) noexcept {  // std::stable_sort asks for its buffer like this
  ++allocations;
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace hopfeed {
namespace {

struct Case {
  const char* name;
  BatchOptions options;
};

/// A sampler of a user's own: takes every other neighbour.
class EveryOther : public HopSampler {
 public:
  EveryOther(const Dataset& dataset, const BatchOptions& /*options*/) : HopSampler(dataset, {5, 5}) {}
  void pick(const HopRow& row, std::vector<std::uint64_t>& picks) override {
    for (std::uint64_t i = 0; i < row.degree && picks.size() < row.most; i += 2) picks.push_back(i);
  }
};

void register_samplers() {
  register_sampler("own",
                   [](const Dataset& dataset, const BatchOptions& options) -> std::unique_ptr<CustomSampler> {
                     return std::make_unique<EveryOther>(dataset, options);
                   });
}

// A random graph whose edges have weights and whose nodes have times.
void write_dataset(const std::filesystem::path& folder, std::uint64_t seed) {
  const testing::TinyGraph plain =
      testing::random_graph({.num_nodes = 500, .num_edges = 5'000, .seed = seed});
  testing::TypedGraph graph{.nodes = {{.count = 500, .x = plain.x, .x_width = plain.x_width, .y = plain.y}},
                            .edges = {{.sources = plain.src, .destinations = plain.dst}}};
  for (std::int64_t v = 0; v < 500; ++v) graph.nodes[0].time.push_back(v * 7 % 50);
  for (std::size_t e = 0; e < plain.src.size(); ++e) graph.edges[0].weight.push_back(e % 9 == 0 ? 1e6 : 1.0);
  testing::write_typed_dataset(folder, graph);
}

/// The same with two node types and all four directions between them.
void write_typed(const std::filesystem::path& folder, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  testing::TypedGraph graph{.nodes = {{.name = "a", .count = 500}, {.name = "b", .count = 300}}};
  for (testing::TypedNodes& nodes : graph.nodes)
    for (std::int64_t v = 0; v < nodes.count; ++v) nodes.time.push_back(v * 7 % 50);
  for (const auto& [src, rel, dst] :
       {std::array{0, 0, 0}, std::array{1, 1, 0}, std::array{0, 2, 1}, std::array{1, 3, 1}}) {
    testing::TypedEdges edges{
        .src = graph.nodes[src].name, .rel = "r" + std::to_string(rel), .dst = graph.nodes[dst].name};
    for (int e = 0; e < 3'000; ++e) {
      edges.sources.push_back(below(graph.nodes[src].count));
      edges.destinations.push_back(below(graph.nodes[dst].count));
      edges.weight.push_back(e % 9 == 0 ? 1e6 : 1.0);
    }
    graph.edges.push_back(edges);
  }
  testing::write_typed_dataset(folder, graph);
}

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
  const std::int64_t before = allocations;
  make_all();
  const std::int64_t steady = allocations - before;
  const std::vector<int> one{1};
  EXPECT_EQ(allocations - before - steady, 1) << "the counter counts";
  return steady;
}

std::int64_t allocated_in_steady_state(const Dataset& dataset, const BatchOptions& options) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 500; ++i) ids.push_back(i % 400);  // some seeds repeat
  const SeedList seeds(ids, {});
  BatchMaker maker(dataset, seeds, options);
  return allocated_in_steady_state(maker, seeds.size());
}

/// The same of links of an edge type between two node types.
std::int64_t allocated_by_links(const Dataset& dataset, BatchOptions options,
                                const NegativeOptions& negatives, std::int64_t time = 60) {
  options.link = {.edge_type = "r1", .negatives = negatives};
  std::vector<std::int64_t> pairs, times(500, time);
  for (std::int64_t i = 0; i < 500; ++i) pairs.insert(pairs.end(), {i % 300, i % 400});
  const LinkList links(pairs, {.edge_type = dataset.meta().edge_type("r1"), .times = times});
  BatchMaker maker(dataset, links, options);
  return allocated_in_steady_state(maker, links.size());
}

class SteadyState : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { register_samplers(); }
};

TEST_P(SteadyState, BatchesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  write_dataset(folder.path() / "data", 3);
  EXPECT_EQ(allocated_in_steady_state(Dataset(folder.path() / "data"), GetParam().options), 0);
}

TEST_P(SteadyState, BatchesOfSeveralTypesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  write_typed(folder.path() / "data", 3);
  BatchOptions options = GetParam().options;
  if (options.sampler == BatchOptions::kWalkSampler) {
    options.walk.metapath = {"r1", "r2"};
    options.walk.p = options.walk.q = 1;
  }
  if (options.subgraph == Subgraph::kBidirectional) {
    EXPECT_THROW(allocated_in_steady_state(Dataset(folder.path() / "data"), options), Error)
        << "r1 has no reverse";
    return;
  }
  EXPECT_EQ(allocated_in_steady_state(Dataset(folder.path() / "data"), options), 0);
}

TEST(SteadyStateOfLinks, BatchesMadeAgain_AllocateNothing) {
  const testing::TempFolder folder;
  write_typed(folder.path() / "data", 3);
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
  write_dataset(folder.path() / "data", 4);
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
  const SeedList list(seeds, {});
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
  write_dataset(folder.path() / "data", 5);
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
  const std::int64_t before = allocations;
  sample_all();
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(sampler->scratch_bytes(), bytes);
  EXPECT_GT(pairs, 2'000);
}

INSTANTIATE_TEST_SUITE_P(
    Options, SteadyState,
    ::testing::Values(
        Case{"Plain", {.fanouts = {15, 10, 5}}}, Case{"EdgeIds", {.fanouts = {5, 5}, .edge_ids = true}},
        Case{"Replacement", {.fanouts = {5, 5}, .replace = true}},
        Case{"AllNeighbors", {.fanouts = {-1, -1}}}, Case{"LargeFanout", {.fanouts = {40, 40}}},
        Case{"Weighted", {.fanouts = {5, 5}, .weight = "weight"}},
        Case{"WeightedReplacement", {.fanouts = {5, 5}, .replace = true, .weight = "weight"}},
        Case{"EdgeAttributes", {.fanouts = {5, 5}, .edge_attrs = {"weight"}}},
        Case{"Induced", {.fanouts = {5, 5}, .subgraph = Subgraph::kInduced, .edge_ids = true}},
        Case{"Bidirectional",
             {.fanouts = {5, 5},
              .subgraph = Subgraph::kBidirectional,
              .keep_orig_edges = true,
              .edge_ids = true,
              .edge_attrs = {"weight"}}},
        Case{"Labor", {.fanouts = {5, 5}, .labor = true}},
        Case{"LaborOfManyBatches", {.fanouts = {5, 5}, .labor = true, .labor_seeds = 500}},
        Case{"Disjoint", {.fanouts = {5, 5}, .disjoint = true, .edge_ids = true}},
        Case{"Walks",
             {.sampler = BatchOptions::kWalkSampler, .walk = {.length = 9, .per_seed = 5, .p = 0.5, .q = 2}}},
        Case{"Clusters",
             {.sampler = BatchOptions::kClusterSampler, .cluster = "time", .subgraph = Subgraph::kInduced}},
        Case{"OnesOwn", {.sampler = "own"}},
        Case{"TemporalLast",
             {.fanouts = {5, 5}, .time = "time", .temporal_strategy = TemporalStrategy::kLast}},
        Case{"Temporal", {.fanouts = {5, 5}, .time = "time", .time_window = 20}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
