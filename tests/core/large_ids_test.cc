// No 32-bit truncation anywhere: a graph of three billion nodes and five billion edges, of which a few are
// there and the rest is a hole in the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/base/error.h"
#include "core/dataset/npy.h"
#include "core/sampler/sampler_registry.h"
#include "tests/core/chi_square.h"
#include "tests/support/made_batch.h"
#include "tests/support/sparse_dataset.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;
using testing::SparseFile;

constexpr std::int64_t kNodes = 3'000'000'000, kEdges = 5'000'000'000;
constexpr std::int64_t kA = (std::int64_t{1} << 31) + 5, kB = (std::int64_t{1} << 31) + 9, kC = kNodes - 1;
constexpr std::int64_t kLow = 7, kEdge = (std::int64_t{1} << 31) - 1;  // without in-edges
constexpr std::int64_t kHub = 100, kHubDegree = 4'400'000'000;         // a row of more than 2^32 edges

/// The weight and the time of an edge by its place in the row; the later the heavier.
double weight_of(std::size_t i) { return static_cast<double>(i + 1); }
std::int64_t time_of(std::size_t i) { return 10 * static_cast<std::int64_t>(i); }

class LargeIds : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path folder = folder_.path() / "graph";
    NodeTypeMeta node{.count = kNodes,
                      .partition_offsets = {0, kNodes},
                      .new_id_type = ElementType::kInt64,
                      .attrs = {{.name = "x", .shape = {1}, .stride_bytes = 4},
                                {.name = "t", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8}}};
    const EdgeTypeMeta edge = testing::sparse_edge_type(kEdges, {kEdges});
    DatasetMeta meta{.name = "sparse", .fingerprint = std::string(32, '0'), .made_by = "test"};
    SparseFile new_ids(meta, folder, new_ids_path(node), npy_descr(ElementType::kInt64), {kNodes}, 8);
    SparseFile x(meta, folder, attr_path(0, node, "x"), npy_descr(ElementType::kFloat32), {kNodes, 1}, 4);
    SparseFile hotness(meta, folder, hotness_path(0, node), npy_descr(ElementType::kFloat64), {kNodes}, 8);
    SparseFile node_time(meta, folder, attr_path(0, node, "t"), npy_descr(ElementType::kInt64), {kNodes, 1},
                         8);
    testing::write_sparse_time_bounds(meta, folder, edge);
    testing::SparseRows rows(meta, folder, 0, edge, kNodes);
    for (const std::int64_t v : {kA, kB, kC, kLow, kEdge, kHub}) {
      new_ids.put(v, v);
      node_time.put(v, std::int64_t{15});
      x.put(v, static_cast<float>(v % 1'000));
      rows.put_record(v, 0, v);
    }
    std::int64_t at = kHubDegree + 5;
    for (const auto& [v, sources] : rows_of_) {
      if (v == kC)
        at = kEdges - static_cast<std::int64_t>(sources.size());  // the last row ends with the edges
      std::vector<testing::SparseEdge> edges;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        edges.push_back({.source = sources[i], .id = at, .weight = weight_of(i), .time = time_of(i)});
        ids_of_[v].push_back(at++);
      }
      rows.put(v, v, ids_of_[v].front(), edges);
    }
    rows.put_record(kNodes, kEdges, -1);
    rows.put_record(kHub + 1, kHubDegree, kHub + 1);
    meta.node_types = {node};
    meta.edge_types = {edge};
    std::ofstream(folder / "meta.json") << format_meta(meta);
  }

  testing::Block batch(const Ints& seeds, const BatchOptions& options) {
    dataset_.emplace(folder_.path() / "graph");
    return testing::make_batch(*dataset_, {.seeds = seeds}, options);
  }

  /// An attribute of the drawn edges is what the place of each in its row says.
  template <class T>
  void expect_attr(const BatchView& batch, const char* name, T (*of)(std::size_t)) const {
    const Ints targets = testing::target_row(batch), e_id = testing::ints(batch.get("e_id", Store::kEdge));
    const auto values = batch.get(name, Store::kEdge).as<T>();
    ASSERT_EQ(values.size(), targets.size());
    for (std::size_t e = 0; e < values.size(); ++e) {
      const Ints& ids = ids_of_.at(batch.n_id()[static_cast<std::size_t>(targets[e])]);
      EXPECT_EQ(values[e], of(static_cast<std::size_t>(e_id[e] - ids.front())));
    }
  }

  std::map<std::int64_t, Ints> rows_of_{{kA, {kB, kC, kLow}}, {kB, {kA, kA}}, {kC, {kA, kB, kC, kEdge}}};
  std::map<std::int64_t, Ints> ids_of_;
  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

/// (source, destination, edge id) of each edge, by original id, and that they are the rows'.
void expect_real(const BatchView& batch, const std::map<std::int64_t, Ints>& rows,
                 const std::map<std::int64_t, Ints>& ids) {
  const Ints sources = testing::source_row(batch), targets = testing::target_row(batch);
  const auto e_id = batch.get("e_id", Store::kEdge).as<std::int64_t>();
  EXPECT_FALSE(sources.empty());
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const std::int64_t target = batch.n_id()[static_cast<std::size_t>(targets[e])];
    const Ints& of_row = ids.at(target);
    const auto at = std::find(of_row.begin(), of_row.end(), e_id[e]);
    ASSERT_NE(at, of_row.end()) << e_id[e];
    EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(sources[e])],
              rows.at(target)[static_cast<std::size_t>(at - of_row.begin())]);
  }
  const auto x = batch.get("x", Store::kNode).as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], static_cast<float>(batch.n_id()[i] % 1'000));
}

TEST_F(LargeIds, AllNeighbours_AreNamedInFull) {
  const testing::Block block = batch({kA, kC}, {.fanouts = {-1, -1}, .edge_ids = true});
  EXPECT_EQ(testing::ints(block.view().n_id()), (Ints{kA, kC, kB, kLow, kEdge}));
  EXPECT_EQ(testing::source_row(block.view()), (Ints{2, 1, 3, 0, 2, 1, 4, 0, 0}));
  EXPECT_EQ(testing::target_row(block.view()), (Ints{0, 0, 0, 1, 1, 1, 1, 2, 2}));
  expect_real(block.view(), rows_of_, ids_of_);
}

TEST_F(LargeIds, EveryKindOfDraw_TakesRealEdges) {
  BatchOptions walk{.sampler = BatchOptions::kWalkSampler};
  walk.walk = {.length = 6, .per_seed = 4};
  BatchOptions labor{.fanouts = {2, 2}}, induced{.fanouts = {2, 2}};
  labor.labor = true;
  induced.subgraph = Subgraph::kInduced;
  for (BatchOptions options :
       {BatchOptions{.fanouts = {2, 2}}, BatchOptions{.fanouts = {2, 2}, .replace = true},
        BatchOptions{.fanouts = {2, 2}, .disjoint = true}, labor, induced, walk,
        BatchOptions{.fanouts = {2, 2}, .weight = "w", .edge_attrs = {"w"}},
        BatchOptions{.fanouts = {2, 2}, .replace = true, .weight = "w", .edge_attrs = {"w"}}}) {
    options.edge_ids = true;
    const testing::Block block = batch({kC, kA, kB}, options);
    expect_real(block.view(), rows_of_, ids_of_);
    if (!options.weight.empty()) expect_attr<double>(block.view(), "w", weight_of);
  }
}

// Seeds are at time 15: of each row the edges of times 0 and 10 are of the past.
TEST_F(LargeIds, DrawsByTime_TakeRealEdgesOfThePast) {
  for (const TemporalStrategy strategy : {TemporalStrategy::kUniform, TemporalStrategy::kLast}) {
    for (const std::int64_t fanout : {1, 2, 5}) {
      const testing::Block block = batch({kC, kA, kB}, {.fanouts = {fanout, 1},
                                                        .time = "t",
                                                        .temporal_strategy = strategy,
                                                        .edge_ids = true,
                                                        .edge_attrs = {"t"}});
      expect_real(block.view(), rows_of_, ids_of_);
      expect_attr<std::int64_t>(block.view(), "t", time_of);
      for (const std::int64_t time : testing::ints(block.view().get("t", Store::kEdge))) EXPECT_LE(time, 15);
      EXPECT_EQ(testing::ints(block.view().num_sampled_edges())[0], 3 * std::min<std::int64_t>(fanout, 2));
    }
  }
}

/// Eight parts of the hub's row as often as each other, and nothing beyond it.
void expect_all_over_the_hub(const std::vector<std::int64_t>& positions) {
  constexpr std::int64_t kParts = 8;
  std::vector<std::int64_t> counts(kParts);
  for (const std::int64_t position : positions) {
    ASSERT_GE(position, 0);
    ASSERT_LT(position, kHubDegree);
    ++counts[static_cast<std::size_t>(position / (kHubDegree / kParts))];
  }
  EXPECT_GT(testing::uniform_p_value(counts), 1e-6);
}

TEST_F(LargeIds, ARowOfMoreThan2To32Edges_IsDrawnFromAllOverIt) {
  const Dataset dataset(folder_.path() / "graph", {.huge_pages = HugePages::kNever});
  const std::vector<std::int64_t> seeds{kHub};
  const TypedSeeds typed{.node_type = 0, .ids = seeds, .times = {}};
  const SampleRequest request{.key = {.seed = 3, .epoch = 0, .first = 0, .count = 1}, .seeds = {&typed, 1}};
  BatchOptions walk{.sampler = BatchOptions::kWalkSampler, .edge_attrs = {"t"}};
  walk.walk = {.length = 1, .per_seed = 120};
  for (const BatchOptions& options :
       {BatchOptions{.fanouts = {120}, .edge_attrs = {"t"}},
        BatchOptions{.fanouts = {120}, .replace = true, .edge_attrs = {"t"}}, walk}) {
    const std::unique_ptr<Sampler> sampler = make_sampler(dataset, options);
    const std::vector<std::int64_t> drawn = testing::ints(sampler->sample(request).edges[0].positions);
    EXPECT_EQ(drawn.size(), 120U) << options.sampler;
    expect_all_over_the_hub(drawn);
  }
}

// Its neighbours are the hole: node 0, edge id 0.
TEST_F(LargeIds, ARowOfMoreThan2To32Edges_IsDrawnFrom) {
  for (const bool replace : {false, true}) {
    const testing::Block block = batch({kHub}, {.fanouts = {3}, .replace = replace, .edge_ids = true});
    EXPECT_EQ(testing::ints(block.view().n_id()), (Ints{kHub, 0}));
    EXPECT_EQ(testing::source_row(block.view()), (Ints{1, 1, 1}));
  }
}

TEST_F(LargeIds, SeedsBeyondTheGraph_AreRefused) {
  for (const std::int64_t seed : {kNodes, kNodes + (std::int64_t{1} << 32), std::int64_t{1} << 62}) {
    try {
      batch({seed}, {.fanouts = {2}});
      FAIL() << seed;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(seed)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace hopfeed
