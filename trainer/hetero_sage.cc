// See hetero_sage.h.
#include "trainer/hetero_sage.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/limits.h"
#include "trainer/mean_aggregation.h"
#include "trainer/relu_dropout.h"

namespace hopfeed {
namespace {

/// Torch's names of modules and parameters take no dot, names of types no tilde.
std::string module_name(std::string type) {
  std::replace(type.begin(), type.end(), '.', '~');
  return type;
}

void check(const HeteroOptions& options) {
  options.batch.validate();
  const auto hops = options.batch.fanouts.size();
  require_valid(hops > 0, "HeteroSage needs a hop at least; give fanouts");
  require_valid(!options.batch.dataset_ids,
                "HeteroSage's learned rows go by original ids; leave dataset_ids out");
  require_valid(options.hidden > 0 && options.hidden <= kMaxHidden,
                "hidden is " + std::to_string(options.hidden) + "; use 1 to " + std::to_string(kMaxHidden));
  require_valid(options.dropout >= 0 && options.dropout < 1,
                "dropout is " + std::to_string(options.dropout) + "; use 0 up to below 1");
  const NodeTypeMeta& seeds = options.dataset.node_types.at(static_cast<std::size_t>(options.seed_type));
  require_valid(seeds.num_classes > 1, "the model needs at least 2 classes, not " +
                                           std::to_string(seeds.num_classes) + "; does node type '" +
                                           seeds.name + "' have labels 'y'?");
}

}  // namespace

HeteroSageImpl::HeteroSageImpl(const HeteroOptions& options)
    : options_(options), hops_(std::ssize(options.batch.fanouts)) {
  check(options);
  options_.dataset.files.clear();
  find_reached();
  make_embeddings();
  for (std::int64_t l = 0; l < hops_; ++l) layers_.push_back(make_layer(l));
}

void HeteroSageImpl::find_reached() {
  const DatasetMeta& dataset = options_.dataset;
  std::vector<std::vector<std::int64_t>> fanouts(dataset.edge_types.size(), options_.batch.fanouts);
  for (const auto& [name, own] : options_.batch.edge_fanouts) fanouts[dataset.edge_type(name)] = own;
  reached_.assign(1, std::vector<bool>(dataset.node_types.size(), false));
  reached_[0][options_.seed_type] = true;
  for (std::int64_t hop = 0; hop < hops_; ++hop) {
    std::vector<bool> drawn(dataset.edge_types.size()), next(dataset.node_types.size());
    for (std::size_t e = 0; e < drawn.size(); ++e) {
      const EdgeTypeMeta& edge = dataset.edge_types[e];
      drawn[e] = fanouts[e][hop] != 0 && reached_[hop][dataset.edge_dst_type(edge)];
      if (drawn[e]) next[dataset.edge_src_type(edge)] = true;
    }
    drawn_.push_back(std::move(drawn));
    reached_.push_back(std::move(next));
  }
}

void HeteroSageImpl::make_embeddings() {
  const std::size_t types = options_.dataset.node_types.size();
  embeddings_.resize(types);
  for (std::size_t t = 0; t < types; ++t) {
    const NodeTypeMeta& type = options_.dataset.node_types[t];
    if (!is_reached(static_cast<int>(t)) || feature_width(type) > 0) continue;
    require_valid(
        type.count <= kMaxEmbeddingElements / options_.hidden,
        "node type '" + type.name + "' has no features 'x' and " + std::to_string(type.count) +
            " nodes, too many to learn " + std::to_string(options_.hidden) +
            " numbers for each; import it with features, or leave the edge types to it out by fanouts of 0");
    const double scale = 1 / std::sqrt(static_cast<double>(options_.hidden));  // rows of length 1
    embeddings_[t] = register_parameter("embedding_" + module_name(type.name),
                                        torch::randn({type.count, options_.hidden}) * scale);
  }
}

bool HeteroSageImpl::is_reached(int node_type) const {
  return std::any_of(reached_.begin(), reached_.end(), [&](const auto& hop) { return hop[node_type]; });
}

std::int64_t HeteroSageImpl::input_width(int node_type, std::int64_t layer) const {
  return layer > 0 || embeddings_[node_type].defined() ? options_.hidden : feature_width(nodes(node_type));
}

HeteroSageImpl::Layer HeteroSageImpl::make_layer(std::int64_t number) {
  const DatasetMeta& dataset = options_.dataset;
  const auto module =
      register_module("layer" + std::to_string(number), std::make_shared<torch::nn::Module>());
  const std::int64_t out = number + 1 < hops_ ? options_.hidden : num_classes();
  const auto linear = [&](const std::string& name, int from, bool bias) {
    return module->register_module(
        module_name(name),
        torch::nn::Linear(torch::nn::LinearOptions(input_width(from, number), out).bias(bias)));
  };
  const auto in_a_hop = [&](const std::vector<std::vector<bool>>& by_hop, int type) {
    return std::any_of(by_hop.begin(), by_hop.begin() + (hops_ - number),
                       [&](const std::vector<bool>& hop) { return hop[type]; });
  };
  Layer layer;
  for (int t = 0; t < static_cast<int>(dataset.node_types.size()); ++t) {
    if (!in_a_hop(reached_, t)) continue;
    Destination& to = layer.emplace_back(Destination{t, linear(nodes(t).name, t, true), {}});
    for (int e = 0; e < static_cast<int>(dataset.edge_types.size()); ++e) {
      const EdgeTypeMeta& edge = dataset.edge_types[e];
      const int src = dataset.edge_src_type(edge);
      if (dataset.edge_dst_type(edge) == t && in_a_hop(drawn_, e))
        to.relations.push_back({e, src, linear(edge.folder(), src, false)});
    }
  }
  return layer;
}

/// What one forward has computed so far, and the parameters that it had no use for.
struct HeteroSageImpl::Pass {
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
      out.index_add_(0, filled.ids, relation.linear->forward(mean));
    }
    return out;
  }

  /// `values`, in whose gradient every parameter takes part.
  torch::Tensor with_unused(torch::Tensor values) const {
    for (const torch::Tensor& parameter : unused) values = values + parameter.narrow(0, 0, 0).sum();
    return values;
  }
};

torch::Tensor HeteroSageImpl::input(int node_type, const NodeTensors& in) const {
  const torch::Tensor& embedding = embeddings_[node_type];
  if (embedding.defined()) return torch::embedding(embedding, in.n_id);
  const std::int64_t width = feature_width(nodes(node_type));
  require_valid(in.x.defined() && in.x.dim() == 2 && in.x.size(1) == width,
                "the batch's x of node type '" + nodes(node_type).name + "' does not have the " +
                    std::to_string(width) + " features that the model was made for");
  return in.x.to(parameters().front().scalar_type());  // no copy where the stored type is the model's
}

torch::Tensor HeteroSageImpl::forward(const TypedBatchTensors& batch) {
  const bool whole = batch.nodes[batch.seed_type].is_whole();
  require_valid(batch.seed_type == options_.seed_type && (batch.num_hops() == hops_ || whole),
                "a batch of " + std::to_string(batch.num_hops()) + " hops from node type '" +
                    batch.meta->node_types[batch.seed_type].name + "' does not fit a model of " +
                    std::to_string(hops_) + " hops from '" + nodes(options_.seed_type).name + "'");
  Pass pass{.h = std::vector<torch::Tensor>(batch.nodes.size()),
            .rows = std::vector<std::optional<FilledRows>>(batch.edges.size()),
            .unused = {}};
  for (int t = 0; t < static_cast<int>(batch.nodes.size()); ++t) {
    if (!is_reached(t)) continue;
    if (batch.nodes[t].num_nodes() > 0)
      pass.h[t] = input(t, batch.nodes[t]);
    else if (embeddings_[t].defined())
      pass.unused.push_back(embeddings_[t]);
  }
  for (const Destination& to : layers_.front()) {
    for (const Relation& relation : to.relations)
      pass.rows[relation.edge_type].emplace(batch.rows(relation.edge_type));
  }
  for (std::int64_t l = 0; l < hops_; ++l) {
    std::vector<torch::Tensor> next(pass.h.size());
    for (Destination& to : layers_[l]) {
      torch::Tensor out = pass.computed(to, batch.nodes[to.node_type].num_expanded(hops_ - l));
      if (out.defined() && l + 1 < hops_) out = relu_dropout(out, is_training() ? options_.dropout : 0);
      next[to.node_type] = std::move(out);
    }
    pass.h = std::move(next);
  }
  return pass.with_unused(pass.h[options_.seed_type]);
}

SeedLogits HeteroSageImpl::at_seeds(const Batch& batch) {
  const TypedBatchTensors tensors = to_typed_tensors(batch, options_.dataset);
  return {.logits = tensors.at_seeds(forward(tensors)),
          .labels = tensors.at_seeds(tensors.nodes[options_.seed_type].y)};
}

std::vector<LayerMaps> HeteroSageImpl::layers() const {
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
