// HeteroSage and its layer-wise inference against the formula written edge by edge with Torch's own
// operations, forward and backward.
#include "trainer/hetero_sage.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/test_batches.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/layerwise_inference.h"

namespace hopfeed {
namespace {

using testing::TempFolder;
using testing::TypedGraph;

/// A small graph as tensors: features of each node type, edge_index [2, E] of each edge type.
struct Inputs {
  std::vector<torch::Tensor> x, edge_index;
};

/// What the layers make of all nodes, by the formula of node_classifier.h: for the labelled type.
torch::Tensor by_formula(const std::vector<LayerMaps>& layers, const Inputs& graph, const DatasetMeta& meta) {
  std::vector<torch::Tensor> h = graph.x;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    std::vector<torch::Tensor> next(h.size());
    for (const LayerMaps::Destination& to : layers[l].destinations) {
      torch::Tensor out = torch::linear(h[to.node_type], to.weight, to.bias);
      for (const LayerMaps::Relation& relation : to.relations) {
        const torch::Tensor edges = graph.edge_index[relation.edge_type],
                            from = h[meta.edge_src_type(meta.edge_types[relation.edge_type])];
        const torch::Tensor zeros = torch::zeros({out.size(0), from.size(1)}, from.options());
        const torch::Tensor degree =
            torch::zeros({out.size(0)}, from.options())
                .index_add(0, edges[1], torch::ones({edges.size(1)}, from.options()));
        const torch::Tensor mean =
            zeros.index_add(0, edges[1], from.index_select(0, edges[0])) / degree.clamp_min(1).unsqueeze(1);
        out = out + torch::matmul(mean, relation.weight.t());
      }
      next[to.node_type] = l + 1 < layers.size() ? torch::relu(out) : out;
    }
    h = next;
  }
  return h[layers.back().destinations.front().node_type];
}

class HeteroSageTest : public ::testing::Test {
 protected:
  HeteroSageTest() {
    at::set_num_threads(1);
    torch::manual_seed(4);
    write(graph_);
  }
  void write(const TypedGraph& graph, int partitions = 2) {
    dataset_.reset();
    testing::write_typed_dataset(folder_.path() / "data", graph,
                                 testing::random_typed_cut(graph, partitions, 3));
    dataset_ = std::make_unique<Dataset>(folder_.path() / "data");
  }
  HeteroSage model(const BatchOptions& batch, const std::string& seeds = "paper") const {
    return HeteroSage(HeteroOptions{
        .dataset = dataset_->meta(), .batch = batch, .seed_type = graph_.node_type(seeds), .hidden = 10});
  }
  TypedBatchTensors batch(const BatchOptions& options, const std::vector<std::int64_t>& seeds) const {
    const auto slot = testing::make_slot(*dataset_, seeds, options, {.count = std::ssize(seeds)});
    return to_typed_tensors(BatchView(slot->bytes()), dataset_->meta(), slot);
  }
  /// All learned rows of a type, by original id; undefined where it has none.
  static torch::Tensor rows_of(const HeteroSage& model, int node_type) {
    DistEmbedding rows = model->learned_rows(node_type);
    const torch::NoGradGuard no_gradients;
    return rows.is_empty() ? torch::Tensor() : rows->forward(torch::arange(rows->table().options().rows));
  }
  /// The whole graph by original ids.
  Inputs whole(const HeteroSage& model) const {
    Inputs all;
    for (std::size_t t = 0; t < graph_.nodes.size(); ++t) {
      const testing::TypedNodes& nodes = graph_.nodes[t];
      all.x.push_back(nodes.x_width > 0 ? torch::tensor(nodes.x).view({nodes.count, nodes.x_width})
                                        : rows_of(model, static_cast<int>(t)));
    }
    for (const testing::TypedEdges& edges : graph_.edges)
      all.edge_index.push_back(
          torch::stack({torch::tensor(edges.sources), torch::tensor(edges.destinations)}));
    return all;
  }
  /// A batch as a graph of its own.
  static Inputs of_batch(const HeteroSage& model, const TypedBatchTensors& batch, torch::Dtype dtype) {
    Inputs all;
    for (std::size_t t = 0; t < batch.nodes.size(); ++t) {
      const torch::Tensor rows = rows_of(model, static_cast<int>(t));
      all.x.push_back(rows.defined()               ? rows.index_select(0, batch.nodes[t].n_id).to(dtype)
                      : batch.nodes[t].x.defined() ? batch.nodes[t].x.to(dtype)
                                                   : torch::Tensor());
    }
    for (const EdgeTensors& edges : batch.edges) all.edge_index.push_back(edges.edge_index);
    return all;
  }
  std::vector<std::int64_t> all_papers() const {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(graph_.nodes[0].count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }

  const TypedGraph graph_ = testing::typed_training_graph();
  TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(HeteroSageTest, OnAllNeighboursBatchesAndLayerwiseInferenceEqualTheFormula) {
  for (const std::int64_t hops : {1, 2, 3}) {
    for (const int partitions : {1, 3}) {
      write(graph_, partitions);
      const BatchOptions options{.fanouts = std::vector<std::int64_t>(hops, -1)};
      HeteroSage sage = model(options);
      sage->eval();
      const torch::NoGradGuard no_gradients;
      const torch::Tensor expected = by_formula(sage->layers(), whole(sage), dataset_->meta());
      const torch::Tensor sampled = sage->forward(batch(options, all_papers())),
                          exact = layerwise_inference(*sage, *dataset_);
      EXPECT_TRUE(torch::allclose(sampled, expected, 1e-4, 1e-5)) << hops << " hops";
      for (const std::int64_t id : all_papers())
        ASSERT_TRUE(torch::allclose(exact[dataset_->dataset_id(0, id)], expected[id], 1e-4, 1e-5))
            << hops << " hops, " << partitions << " partitions, node " << id;
    }
  }
}

TEST_F(HeteroSageTest, SeedsOfAnotherTypeThanTheFirst) {
  TypedGraph labelled = graph_;
  testing::TypedNodes& authors = labelled.nodes[1];
  authors.num_classes = 4;
  for (std::int64_t v = 0; v < authors.count; ++v) authors.y.push_back(v % 4);
  authors.splits["test"] = {7, 3, 5};
  write(labelled);
  const BatchOptions options{.fanouts = {-1, -1}};
  HeteroSage sage = model(options, "author");
  sage->eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor expected = by_formula(sage->layers(), whole(sage), dataset_->meta()),
                      exact = layerwise_inference(*sage, *dataset_);
  ASSERT_EQ(exact.size(0), authors.count);
  for (std::int64_t id = 0; id < authors.count; ++id)
    ASSERT_TRUE(torch::allclose(exact[dataset_->dataset_id(1, id)], expected[id], 1e-4, 1e-5)) << id;
  EXPECT_EQ(split_accuracy(exact, *dataset_, "test", 1).total, 3);
}

TEST_F(HeteroSageTest, TrimmedLayersAndTheirGradientsEqualTheFormulaOnTheBatch) {
  BatchOptions options{.fanouts = {4, 3, 2},
                       .edge_fanouts = {{"rev_cites", {2, 0, 5}}, {"cites", {1, 1, 0}}}};
  HeteroSage sage = model(options);
  sage->eval();
  sage->to(torch::kFloat64);
  const TypedBatchTensors sample = batch(options, {5, 17, 240, 11, 3, 60});
  const torch::Tensor found = sage->forward(sample);
  const torch::Tensor expected =
      by_formula(sage->layers(), of_batch(sage, sample, torch::kFloat64), dataset_->meta()).narrow(0, 0, 6);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-12, 1e-12));
  const torch::Tensor weights = torch::randn_like(found);
  const auto gradients = [&](const torch::Tensor& out) {
    return torch::autograd::grad({(out * weights).sum()}, sage->parameters(), {}, {}, false,
                                 /*allow_unused=*/true);
  };
  const auto mine = gradients(found), theirs = gradients(expected);
  const auto names = sage->named_parameters();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    ASSERT_TRUE(mine[i].defined()) << names[i].key();
    const torch::Tensor other = theirs[i].defined() ? theirs[i] : torch::zeros_like(mine[i]);
    EXPECT_TRUE(torch::allclose(mine[i], other, 1e-10, 1e-10)) << names[i].key();
  }
}

TEST_F(HeteroSageTest, GradientsEqualFiniteDifferences) {
  const BatchOptions options{.fanouts = {3, 3}};
  HeteroSage sage = model(options);
  sage->eval();
  sage->to(torch::kFloat64);
  const TypedBatchTensors sample = batch(options, {5, 17, 240, 11});
  const auto value = [&] { return sage->forward(sample).square().sum(); };
  value().backward();
  const torch::NoGradGuard no_gradients;
  for (const auto& parameter : sage->named_parameters()) {
    torch::Tensor values = parameter.value().view(-1);
    const std::int64_t i = values.size(0) / 2;
    const double before = values[i].item<double>(), step = 1e-6;
    values[i] = before + step;
    const double above = value().item<double>();
    values[i] = before - step;
    const double below = value().item<double>();
    values[i] = before;
    EXPECT_NEAR(parameter.value().grad().view(-1)[i].item<double>(), (above - below) / (2 * step), 1e-5)
        << parameter.key();
  }
}

TEST_F(HeteroSageTest, ABatchThatMissesTypesGivesTheirParametersAGradientOfZero) {
  const BatchOptions options{.fanouts = {3, 2}, .edge_fanouts = {{"cites", {0, 0}}, {"rev_cites", {0, 0}}}};
  HeteroSage sage = model(options);
  const TypedBatchTensors alone = batch(options, {0, 7, 14});  // no author, no venue
  ASSERT_EQ(alone.node("author").num_nodes(), 0);
  ASSERT_EQ(alone.node("paper").num_nodes(), 3);
  sage->forward(alone).sum().backward();
  std::int64_t zero = 0;
  for (const auto& parameter : sage->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    if ((parameter.value().grad() == 0).all().item<bool>()) ++zero;
  }
  EXPECT_EQ(zero, std::ssize(sage->parameters()) - 4) << "the papers' own maps learn, two a layer";
}

TEST_F(HeteroSageTest, ALayerHasWeightsForWhatALaterOneReadsOnly) {
  const auto names = [&](const BatchOptions& options) {
    std::vector<std::string> keys = model(options)->named_parameters().keys();
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  EXPECT_EQ(names({.fanouts = {2}, .edge_fanouts = {{"cites", {0}}, {"rev_cites", {0}}}}),
            (std::vector<std::string>{"layer0.author__writes__paper.weight", "layer0.paper.bias",
                                      "layer0.paper.weight", "layer0.ven~ue__rev_in__paper.weight"}));
  const auto two = names({.fanouts = {2, 2}});
  const auto has = [&](const char* name) { return std::find(two.begin(), two.end(), name) != two.end(); };
  EXPECT_TRUE(has("layer0.author.weight"));
  EXPECT_TRUE(has("layer0.paper__in__ven~ue.weight"));
  EXPECT_FALSE(has("layer1.author.weight"));
  EXPECT_FALSE(has("layer1.paper__in__ven~ue.weight"));
  for (const std::string& name : two) EXPECT_EQ(name.find("island"), std::string::npos) << name;
}

TEST_F(HeteroSageTest, RepeatedSeedsHaveARowEach) {
  const BatchOptions options{.fanouts = {3}};
  HeteroSage sage = model(options);
  const TypedBatchTensors twice = batch(options, {7, 3, 7});
  const torch::Tensor logits = twice.at_seeds(sage->forward(twice));
  ASSERT_EQ(logits.size(0), 3);
  EXPECT_TRUE(torch::equal(logits[0], logits[2]));
  EXPECT_FALSE(torch::equal(logits[0], logits[1]));
}

TEST_F(HeteroSageTest, TypedFieldsAreFoundByName) {
  const TypedBatchTensors sample = batch({.fanouts = {3, 2}, .edge_ids = true}, {5, 17, 240});
  EXPECT_EQ(sample.num_hops(), 2);
  EXPECT_EQ(sample.batch_size, 3);
  EXPECT_EQ(sample.node("paper").x.size(0), sample.node("paper").num_nodes());
  EXPECT_FALSE(sample.node("author").x.defined());
  EXPECT_EQ(sample.edge("writes").edge_index.size(1), sample.edge("author__writes__paper").e_id.size(0));
  EXPECT_EQ(sample.node("island").num_nodes(), 0);
  EXPECT_THROW(sample.node("journal"), Error);
  EXPECT_THROW(sample.edge("edits"), Error);
  const testing::TypedEdges& writes = graph_.edges[1];
  const EdgeTensors& edges = sample.edge("writes");
  for (std::int64_t i = 0; i < edges.e_id.size(0); ++i) {
    const auto e = static_cast<std::size_t>(edges.e_id[i].item<std::int64_t>());
    EXPECT_EQ(sample.node("author").n_id[edges.edge_index[0][i]].item<std::int64_t>(), writes.sources[e]);
    EXPECT_EQ(sample.node("paper").n_id[edges.edge_index[1][i]].item<std::int64_t>(), writes.destinations[e]);
  }
}

TEST_F(HeteroSageTest, OtherArraysAreThereUnderTheirNames) {
  TypedGraph timed = graph_;
  for (std::size_t e = 0; e < timed.edges[0].sources.size(); ++e)
    timed.edges[0].time.push_back(static_cast<std::int64_t>(e));
  timed.nodes[0].time.assign(static_cast<std::size_t>(timed.nodes[0].count), 1'000);
  write(timed);
  const TypedBatchTensors sample =
      batch({.fanouts = {3, 2}, .time = "time", .edge_ids = true, .edge_attrs = {"time"}}, {5, 17, 240});
  EXPECT_TRUE(torch::equal(sample.edge("cites").edge_arrays.at("time"), sample.edge("cites").e_id));
  EXPECT_EQ(sample.edge("cites").edge_arrays.size(), 1U);
  EXPECT_TRUE(sample.edge("rev_cites").edge_arrays.empty());
  EXPECT_TRUE(
      torch::equal(sample.node("paper").node_arrays.at("seed_time"), torch::full({3}, 1'000, torch::kInt64)));
  EXPECT_EQ(sample.node("author").node_arrays.at("batch").size(0), sample.node("author").num_nodes());
}

TEST_F(HeteroSageTest, WhatDoesNotFitIsOneLineThatNamesIt) {
  const auto refusal = [](auto body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  HeteroSage two = model({.fanouts = {2, 2}});
  EXPECT_NE(refusal([&] { two->forward(batch({.fanouts = {2}}, {1})); }).find("1 hops"), std::string::npos);
  EXPECT_NE(refusal([&] {
              two->forward(batch({.fanouts = {2, 2}, .attrs = {{"y"}}}, {1}));
            }).find("8 features"),
            std::string::npos);
  EXPECT_NE(refusal([&] { model({.fanouts = {2}}, "author"); }).find("'author' have labels"),
            std::string::npos);
  EXPECT_NE(refusal([&] { model({.fanouts = {}}); }).find("fanouts"), std::string::npos);
  EXPECT_NE(refusal([&] {
              model({.fanouts = {2}, .edge_fanouts = {{"edits", {2}}}});
            }).find("edits"),
            std::string::npos);
  DatasetMeta large = dataset_->meta();
  large.node_types[1].count = kMaxEmbeddingElements / 128 + 1;
  EXPECT_NE(refusal([&] {
              HeteroSage(HeteroOptions{.dataset = large, .batch = {.fanouts = {2}}});
            }).find("'author' has no features"),
            std::string::npos);
}

}  // namespace
}  // namespace hopfeed
