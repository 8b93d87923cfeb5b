// See hetero_encoder.h.
#include "trainer/hetero_encoder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "trainer/mean_aggregation.h"
#include "trainer/relu_dropout.h"

namespace hopfeed {

std::string module_name(std::string type) {
  std::replace(type.begin(), type.end(), '.', '~');
  return type;
}

bool HopTypes::reaches(int node_type) const {
  return std::any_of(reached.begin(), reached.end(), [&](const auto& hop) { return hop[node_type]; });
}

HopTypes hop_types(const DatasetMeta& dataset, const BatchOptions& batch,
                   const std::vector<int>& seed_types) {
  std::vector<std::vector<std::int64_t>> fanouts(dataset.edge_types.size(), batch.fanouts);
  for (const auto& [name, own] : batch.edge_fanouts) fanouts[dataset.edge_type(name)] = own;
  HopTypes types{{std::vector<bool>(dataset.node_types.size(), false)}, {}};
  for (const int type : seed_types) types.reached[0][type] = true;
  for (std::size_t hop = 0; hop < batch.fanouts.size(); ++hop) {
    std::vector<bool> drawn(dataset.edge_types.size()), next(dataset.node_types.size());
    for (std::size_t e = 0; e < drawn.size(); ++e) {
      const EdgeTypeMeta& edge = dataset.edge_types[e];
      drawn[e] = fanouts[e][hop] != 0 && types.reached[hop][dataset.edge_dst_type(edge)];
      if (drawn[e]) next[dataset.edge_src_type(edge)] = true;
    }
    types.drawn.push_back(std::move(drawn));
    types.reached.push_back(std::move(next));
  }
  return types;
}

HeteroEncoder::HeteroEncoder(torch::nn::Module& owner, const DatasetMeta& dataset, HopTypes types,
                             HeteroEncoderOptions options)
    : dataset_(dataset), types_(std::move(types)), options_(std::move(options)) {
  for (std::int64_t l = 0; l < types_.hops(); ++l) layers_.push_back(make_layer(owner, l));
}

HeteroEncoder::Layer HeteroEncoder::make_layer(torch::nn::Module& owner, std::int64_t number) const {
  const auto module =
      owner.register_module("layer" + std::to_string(number), std::make_shared<torch::nn::Module>());
  const std::int64_t hops = types_.hops(), out = number + 1 < hops ? options_.hidden : options_.out;
  const auto linear = [&](const std::string& name, int from, bool bias) {
    const std::int64_t in =
        number > 0 ? options_.hidden : options_.input_widths[static_cast<std::size_t>(from)];
    return module->register_module(module_name(name),
                                   torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias)));
  };
  const auto in_a_hop = [&](const std::vector<std::vector<bool>>& by_hop, int type) {
    return std::any_of(by_hop.begin(), by_hop.begin() + (hops - number),
                       [&](const std::vector<bool>& hop) { return hop[type]; });
  };
  Layer layer;
  for (int t = 0; t < static_cast<int>(dataset_.node_types.size()); ++t) {
    if (!in_a_hop(types_.reached, t)) continue;
    Destination& to = layer.emplace_back(Destination{t, linear(dataset_.node_types[t].name, t, true), {}});
    for (int e = 0; e < static_cast<int>(dataset_.edge_types.size()); ++e) {
      const EdgeTypeMeta& edge = dataset_.edge_types[e];
      const int src = dataset_.edge_src_type(edge);
      if (dataset_.edge_dst_type(edge) == t && in_a_hop(types_.drawn, e))
        to.relations.push_back({e, src, linear(edge.folder(), src, false)});
    }
  }
  return layer;
}

/// What one forward has computed so far, and the parameters that it had no use for.
struct HeteroEncoder::Pass {
  std::vector<torch::Tensor> h;                 // by node type; undefined where the batch has no such node
  std::vector<std::optional<FilledRows>> rows;  // by edge type; none where no layer reads it
  std::vector<torch::Tensor> unused;

  void leave_out(const torch::nn::Linear& linear) {
    for (const torch::Tensor& parameter : linear->parameters()) unused.push_back(parameter);
  }

  /// The first `count` nodes of a type, one layer further.
  torch::Tensor computed(Destination& to, std::int64_t count) {
    if (count == 0) {
      leave_out(to.self);
      for (const Relation& relation : to.relations) leave_out(relation.linear);
      return {};
    }
    torch::Tensor out = to.self->forward(h[to.node_type].narrow(0, 0, count));
    for (Relation& relation : to.relations) {
      const FilledRows filled = rows[relation.edge_type]->below(count);
      if (filled.empty()) {
        leave_out(relation.linear);
        continue;
      }
      const torch::Tensor mean = mean_aggregate(h[relation.src_type], filled.rows);
      out.index_add_(0, filled.places, relation.linear->forward(mean));
    }
    return out;
  }

  /// Every parameter takes part in the gradient of the first of the results.
  void take_in_unused() {
    for (torch::Tensor& values : h) {
      if (!values.defined()) continue;
      for (const torch::Tensor& parameter : unused) values = values + parameter.narrow(0, 0, 0).sum();
      return;
    }
  }
};

std::vector<torch::Tensor> HeteroEncoder::forward(const TypedBatchTensors& batch,
                                                  std::vector<torch::Tensor> h, bool training) {
  const std::int64_t hops = types_.hops();
  const bool whole = batch.nodes[static_cast<std::size_t>(options_.seed_types.front())].is_whole();
  require_valid(batch.num_hops() == hops || whole,
                "a batch of " + std::to_string(batch.num_hops()) + " hops does not fit a model of " +
                    std::to_string(hops) + "; give as many fanouts as the model was made for");
  if (hops == 0) return h;
  Pass pass{
      .h = std::move(h), .rows = std::vector<std::optional<FilledRows>>(batch.edges.size()), .unused = {}};
  for (const Destination& to : layers_.front()) {
    for (const Relation& relation : to.relations)
      pass.rows[relation.edge_type].emplace(batch.rows(relation.edge_type));
  }
  for (std::int64_t l = 0; l < hops; ++l) {
    std::vector<torch::Tensor> next(pass.h.size());
    for (Destination& to : layers_[l]) {
      torch::Tensor out = pass.computed(to, batch.nodes[to.node_type].num_expanded(hops - l));
      if (out.defined() && l + 1 < hops) out = relu_dropout(out, training ? options_.dropout : 0);
      next[to.node_type] = std::move(out);
    }
    pass.h = std::move(next);
  }
  pass.take_in_unused();
  return pass.h;
}

std::vector<LayerMaps> HeteroEncoder::layers() const {
  std::vector<LayerMaps> all;
  for (const Layer& layer : layers_) {
    LayerMaps& maps = all.emplace_back();
    for (const Destination& to : layer) {
      LayerMaps::Destination& map = maps.destinations.emplace_back();
      map.node_type = to.node_type;
      map.weight = to.self->weight;
      map.bias = to.self->bias;
      for (const Relation& relation : to.relations)
        map.relations.push_back({relation.edge_type, relation.linear->weight});
    }
  }
  return all;
}

}  // namespace hopfeed
