// Batches against what the serial sampler of typed_oracle.h gives, field by field.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"

namespace hopfeed::testing {
namespace {

using Ints = std::vector<std::int64_t>;

}  // namespace

void expect_same_sample(const BatchView& batch, const TypedBatch& expected, const TypedGraph& graph,
                        const BatchOptions& options) {
  for (int t = 0; t < static_cast<int>(graph.nodes.size()); ++t) {
    SCOPED_TRACE("node type " + graph.nodes[t].name);
    const auto field = [&](const char* name) { return ints(batch.get(name, Store::kNode, t)); };
    EXPECT_EQ(field("n_id"), expected.n_id[t]);
    ASSERT_EQ(batch.has("num_sampled_nodes", Store::kNode, t), options.hops_told());
    if (options.hops_told()) {
      EXPECT_EQ(field("num_sampled_nodes"), expected.nodes_per_hop[t]);
    }
    ASSERT_EQ(batch.has("batch", Store::kNode, t), options.trees());
    if (options.trees()) {
      EXPECT_EQ(field("batch"), expected.batch[t]);
    }
    if (options.attrs) continue;
    ASSERT_EQ(batch.has("y", Store::kNode, t), !graph.nodes[t].y.empty());
    const Ints y = graph.nodes[t].y.empty() ? Ints() : field("y");
    for (std::size_t i = 0; i < expected.n_id[t].size(); ++i)
      EXPECT_EQ(y[i], graph.nodes[t].y[expected.n_id[t][i]]);
    const std::int64_t width = graph.nodes[t].x_width;
    if (width == 0) continue;
    const ArrayView rows = batch.get("x", Store::kNode, t);
    EXPECT_EQ(Ints(rows.shape.begin(), rows.shape.end()), (Ints{std::ssize(expected.n_id[t]), width}));
    const auto x = rows.as<float>();
    for (std::size_t i = 0; i < expected.n_id[t].size(); ++i)
      for (std::int64_t f = 0; f < width; ++f)
        EXPECT_EQ(x[i * width + f], graph.nodes[t].x[expected.n_id[t][i] * width + f]);
  }
  for (int e = 0; e < static_cast<int>(graph.edges.size()); ++e) {
    const TypedEdges& edges = graph.edges[e];
    SCOPED_TRACE("edge type " + edges.rel);
    const Ints index = ints(batch.get("edge_index", Store::kEdge, e));
    const std::int64_t count = std::ssize(index) / 2;
    EXPECT_EQ(Ints(index.begin(), index.begin() + count), expected.sources[e]);
    EXPECT_EQ(Ints(index.begin() + count, index.end()), expected.targets[e]);
    ASSERT_EQ(batch.has("num_sampled_edges", Store::kEdge, e), options.hops_told());
    if (options.hops_told()) {
      EXPECT_EQ(ints(batch.get("num_sampled_edges", Store::kEdge, e)), expected.edges_per_hop[e]);
    }
    ASSERT_EQ(batch.has("_orig_edge_index", Store::kEdge, e), options.keep_orig_edges);
    if (options.keep_orig_edges) {
      Ints drawn = expected.drawn_sources[e];
      drawn.insert(drawn.end(), expected.drawn_targets[e].begin(), expected.drawn_targets[e].end());
      EXPECT_EQ(ints(batch.get("_orig_edge_index", Store::kEdge, e)), drawn);
    }
    if (options.edge_ids) {
      EXPECT_EQ(ints(batch.get("e_id", Store::kEdge, e)), expected.e_id[e]);
    }
    const bool gathers =
        std::find(options.edge_attrs.begin(), options.edge_attrs.end(), "weight") != options.edge_attrs.end();
    ASSERT_EQ(batch.has("weight", Store::kEdge, e), gathers && !edges.weight.empty());
    if (!gathers || edges.weight.empty()) continue;
    const auto weight = batch.get("weight", Store::kEdge, e).as<double>();
    ASSERT_EQ(weight.size(), expected.e_id[e].size());
    for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_EQ(weight[i], edges.weight[expected.e_id[e][i]]);
  }
  if (options.sampler == BatchOptions::kWalkSampler) {
    EXPECT_EQ(ints(batch.get("walks", Store::kBatch)), expected.walks);
  }
}

void expect_same(const BatchView& batch, const TypedBatch& expected, const TypedGraph& graph, int seed_type,
                 const BatchOptions& options) {
  expect_same_sample(batch, expected, graph, options);
  const std::set<std::int64_t> distinct(expected.seed_index.begin(), expected.seed_index.end());
  const bool repeats = distinct.size() < expected.seed_index.size();
  if (options.sampler != BatchOptions::kClusterSampler) {
    EXPECT_EQ(ints(batch.get("batch_size", Store::kNode, seed_type)), (Ints{std::ssize(distinct)}));
  }
  Ints positions(static_cast<std::size_t>(batch.key().count));
  std::iota(positions.begin(), positions.end(), batch.key().first);
  EXPECT_EQ(ints(batch.get("input_id", Store::kNode, seed_type)), positions)
      << "of a list that is not shuffled";
  ASSERT_EQ(batch.has("seed_index", Store::kNode, seed_type), repeats);
  if (repeats) {
    EXPECT_EQ(ints(batch.get("seed_index", Store::kNode, seed_type)), expected.seed_index);
  }
  ASSERT_EQ(batch.has("seed_time", Store::kNode, seed_type), !options.time.empty());
  if (!options.time.empty()) {
    EXPECT_EQ(ints(batch.get("seed_time", Store::kNode, seed_type)), expected.seed_time);
  }
}

}  // namespace hopfeed::testing
