// The link predictor against its formula, written edge by edge with Torch's own operations on a whole graph.
#include "trainer/link_model.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.h"
#include "trainer/roc_auc.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kUsers = 7, kItems = 9;

/// Users buy items; items have features, users none, and a third type is beside.
DatasetMeta shop() {
  const AttrMeta features{.name = "x", .shape = {3}, .stride_bytes = 12};
  DatasetMeta meta;
  meta.node_types = {{.name = "user", .count = kUsers},
                     {.name = "item", .count = kItems, .attrs = {features}},
                     {.name = "shop", .count = 2}};
  meta.edge_types = {{.src = "user", .rel = "buys", .dst = "item"},
                     {.src = "item", .rel = "rev_buys", .dst = "user"},
                     {.src = "item", .rel = "near", .dst = "item"}};
  return meta;
}

/// Edges sorted by destination: a source i feeds destination d where (i * 5 + d * 3) % modulus is 0.
torch::Tensor some_edges(std::int64_t sources, std::int64_t destinations, std::int64_t modulus) {
  std::vector<std::int64_t> from, to;
  for (std::int64_t d = 0; d < destinations; ++d) {
    for (std::int64_t i = 0; i < sources; ++i) {
      if ((i * 5 + d * 3) % modulus != 0) continue;
      from.push_back(i);
      to.push_back(d);
    }
  }
  return torch::stack({torch::tensor(from, torch::kInt64), torch::tensor(to, torch::kInt64)});
}

/// The whole graph as one batch, as an induced subgraph is told, with links of type buys.
TypedBatchTensors whole_graph(const DatasetMeta& meta) {
  TypedBatchTensors batch;
  batch.meta = &meta;
  for (const NodeTypeMeta& type : meta.node_types) {
    NodeTensors nodes;
    nodes.n_id = torch::arange(type.count);
    nodes.num_sampled_nodes = {type.count};
    batch.nodes.push_back(nodes);
  }
  batch.nodes[1].x = torch::sin(torch::arange(kItems * 3).to(torch::kFloat32)).view({kItems, 3});
  for (const EdgeTypeMeta& type : meta.edge_types) {
    EdgeTensors edges;
    edges.edge_index = some_edges(meta.node_types[meta.edge_src_type(type)].count,
                                  meta.node_types[meta.edge_dst_type(type)].count, 4);
    batch.edges.push_back(edges);
  }
  batch.links.edge_type = 0;
  batch.links.edge_label_index = torch::tensor({{0, 3, 6, 3}, {8, 1, 0, 5}}, torch::kInt64);
  batch.links.edge_label = torch::tensor({1.F, 1.F, 0.F, 0.F});
  return batch;
}

LinkModelOptions options(std::vector<std::int64_t> fanouts) {
  return {.dataset = shop(),
          .batch = {.fanouts = std::move(fanouts), .edge_fanouts = {}},
          .edge_type = "buys",
          .hidden = 5,
          .embedding_lr = 0.02};
}

/// By the names of parameters and by sums over the edges; node types 0 and 1.
torch::Tensor by_formula(LinkModel& model, const TypedBatchTensors& batch, std::int64_t hops) {
  const auto parameters = model->named_parameters();
  const auto& meta = model->options().dataset;
  std::vector<torch::Tensor> h{
      std::dynamic_pointer_cast<DistEmbeddingImpl>(model->named_children()["embedding_user"])
          ->forward(batch.nodes[0].n_id),
      batch.nodes[1].x};
  for (std::int64_t l = 0; l < hops; ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".";
    std::vector<torch::Tensor> next(2);
    for (int t = 0; t < 2; ++t)
      next[t] = torch::linear(h[t], parameters[layer + meta.node_types[t].name + ".weight"],
                              parameters[layer + meta.node_types[t].name + ".bias"]);
    for (std::size_t e = 0; e < meta.edge_types.size(); ++e) {
      const EdgeTypeMeta& type = meta.edge_types[e];
      const int src = meta.edge_src_type(type), dst = meta.edge_dst_type(type);
      const torch::Tensor adjacency = torch::zeros({h[dst].size(0), h[src].size(0)});
      const torch::Tensor& edges = batch.edges[e].edge_index;
      for (std::int64_t i = 0; i < edges.size(1); ++i) adjacency[edges[1][i]][edges[0][i]].add_(1);
      const torch::Tensor mean =
          torch::matmul(adjacency, h[src]) / adjacency.sum(1, /*keepdim=*/true).clamp_min(1);
      next[dst] = next[dst] + torch::matmul(mean, parameters[layer + type.folder() + ".weight"].t());
    }
    h = {torch::relu(next[0]), torch::relu(next[1])};
  }
  std::vector<torch::Tensor> scores;
  for (std::int64_t i = 0; i < batch.links.edge_label_index.size(1); ++i) {
    const torch::Tensor pair = torch::cat({h[0][batch.links.edge_label_index[0][i].item<std::int64_t>()],
                                           h[1][batch.links.edge_label_index[1][i].item<std::int64_t>()]});
    const torch::Tensor hidden =
        torch::relu(torch::linear(pair, parameters["both.weight"], parameters["both.bias"]));
    scores.push_back(torch::linear(hidden, parameters["score.weight"], parameters["score.bias"]));
  }
  return torch::cat(scores);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}

TEST(LinkModel, EqualsTheFormulaForAnyNumberOfHops) {
  torch::manual_seed(2);
  for (const std::vector<std::int64_t>& fanouts : {std::vector<std::int64_t>{}, {-1}, {-1, -1}}) {
    LinkModel model(options(fanouts));
    model->eval();
    const TypedBatchTensors batch = whole_graph(model->options().dataset);
    const torch::Tensor found = model->forward(batch),
                        expected = by_formula(model, batch, std::ssize(fanouts));
    ASSERT_EQ(found.sizes(), (std::vector<std::int64_t>{4}));
    EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-5)) << fanouts.size() << " hops\n"
                                                              << found << expected;
  }
}

TEST(LinkModel, ItLearnsWhichLinksAreThere) {
  at::set_num_threads(1);
  torch::manual_seed(2);
  World world;
  for (const std::vector<std::int64_t>& fanouts : {std::vector<std::int64_t>{}, {-1, -1}}) {
    LinkModelOptions wide = options(fanouts);
    wide.hidden = 32;
    LinkModel model(wide);
    torch::optim::Adam adam(model->parameters(), 0.02);
    TypedBatchTensors batch = whole_graph(model->options().dataset);
    std::vector<std::int64_t> from, to;
    std::vector<float> labels;
    for (std::int64_t u = 0; u < kUsers; ++u) {
      for (std::int64_t i = 0; i < kItems; ++i) {
        from.push_back(u);
        to.push_back(i);
        labels.push_back((u * 5 + i) % 3 == 0 ? 1 : 0);
      }
    }
    batch.links.edge_label_index = torch::stack({torch::tensor(from), torch::tensor(to)});
    batch.links.edge_label = torch::tensor(labels);
    for (int step = 0; step < 400; ++step) {
      const torch::Tensor loss = torch::nn::functional::binary_cross_entropy_with_logits(
          model->forward(batch), batch.links.edge_label);
      adam.zero_grad();
      loss.backward();
      adam.step();
      model->step_embeddings(world);
    }
    EXPECT_GT(roc_auc(model->forward(batch), batch.links.edge_label), 0.95) << fanouts.size() << " hops";
    EXPECT_EQ(model->num_learned_rows(), kUsers);
  }
}

TEST(LinkModel, LearnedRowsAreNoParameters_AndTypesOutOfReachHaveNeither) {
  LinkModel model(options({-1, -1}));
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter.key().find("embedding"), std::string::npos) << parameter.key();
    EXPECT_EQ(parameter.key().find("shop"), std::string::npos) << parameter.key();
  }
  EXPECT_TRUE(model->named_children().contains("embedding_user"));
  EXPECT_FALSE(model->named_children().contains("embedding_item")) << "it has features";
  EXPECT_FALSE(model->named_children().contains("embedding_shop"));
}

TEST(LinkModel, WhatDoesNotFitIsOneLineThatNamesIt) {
  LinkModel model(options({-1}));
  TypedBatchTensors batch = whole_graph(model->options().dataset);
  batch.links.edge_type = 2;
  EXPECT_NE(refusal([&] { model->forward(batch); }).find("not links of type 'buys'"), std::string::npos);
  batch.links.edge_type = 0;
  batch.links.edge_label = torch::Tensor();
  EXPECT_NE(refusal([&] { model->forward(batch); }).find("negatives of kind binary"), std::string::npos);
  LinkModelOptions bad = options({-1});
  bad.edge_type = "sells";
  EXPECT_NE(refusal([&] { LinkModel{bad}; }).find("sells"), std::string::npos);
  bad = options({-1});
  bad.hidden = 0;
  EXPECT_NE(refusal([&] { LinkModel{bad}; }).find("hidden is 0"), std::string::npos);
  bad = options({-1});
  bad.dropout = 1;
  EXPECT_NE(refusal([&] { LinkModel{bad}; }).find("dropout"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
