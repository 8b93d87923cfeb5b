// See model.h.
#include "trainer/model.h"

#include <string>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "trainer/relu_dropout.h"

namespace hopfeed {
namespace {

torch::nn::Linear linear(std::int64_t in, std::int64_t out, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

}  // namespace

SageConvImpl::SageConvImpl(std::int64_t in, std::int64_t out)
    : lin_l_(register_module("lin_l", linear(in, out, true))),
      lin_r_(register_module("lin_r", linear(in, out, false))) {}

torch::Tensor SageConvImpl::forward(const torch::Tensor& x, const CompressedRows& rows,
                                    const Activation& activation) {
  return sage_layer(x, rows, weights(), activation);
}

GraphSageImpl::GraphSageImpl(const ModelOptions& options) : options_(options) {
  require_valid(
      options.hops >= 0 && options.hops <= kMaxHops,
      marked("hops") + " is " + std::to_string(options.hops) + "; use 0 to " + std::to_string(kMaxHops));
  require_valid(options.features > 0, "the dataset has no features 'x'; import it with features");
  require_valid(options.hidden > 0 && options.hidden <= kMaxHidden,
                marked("hidden") + " is " + std::to_string(options.hidden) + "; use 1 to " +
                    std::to_string(kMaxHidden));
  require_valid(options.classes > 1, "the model needs at least 2 classes, not " +
                                         std::to_string(options.classes) +
                                         "; does the dataset have labels 'y'?");
  require_valid(options.dropout >= 0 && options.dropout < 1,
                marked("dropout") + " is " + std::to_string(options.dropout) + "; use 0 up to below 1");
  for (std::int64_t l = 0; l < num_layers(); ++l) {
    const std::int64_t in = l == 0 ? options.features : options.hidden;
    const std::int64_t out = l + 1 < num_layers() ? options.hidden : options.classes;
    const std::string name = "layer" + std::to_string(l);
    if (options.hops > 0)
      convs_.push_back(register_module(name, SageConv(in, out)));
    else
      perceptron_.push_back(register_module(name, linear(in, out, true)));
  }
}

std::int64_t GraphSageImpl::num_layers() const {
  return options_.hops > 0 ? options_.hops : kPerceptronLayers;
}

torch::Tensor GraphSageImpl::perceptron(torch::Tensor h) {
  for (std::int64_t l = 0; l < num_layers(); ++l) {
    h = perceptron_[l]->forward(h);
    if (l + 1 < num_layers()) h = relu_dropout(h, drop());
  }
  return h;
}

SeedLogits GraphSageImpl::at_seeds(const AnyBatchTensors& batch) {
  const auto& tensors = std::get<BatchTensors>(batch);
  return {.logits = tensors.at_seeds(forward(tensors)), .labels = tensors.at_seeds(tensors.y)};
}

std::vector<LayerMaps> GraphSageImpl::layers() const {
  std::vector<LayerMaps> layers;
  for (const torch::nn::Linear& linear : perceptron_)
    layers.push_back({{{options_.node_type, linear->weight, linear->bias, {}}}});
  for (const SageConv& conv : convs_) {
    const SageWeights weights = conv->weights();
    layers.push_back({{{options_.node_type, weights.self, weights.bias, {{0, weights.neighbours}}}}});
  }
  return layers;
}

torch::Tensor GraphSageImpl::forward(const BatchTensors& batch) {
  require_valid(batch.x.defined() && batch.x.dim() == 2 && batch.x.size(1) == options_.features,
                "the batch's x does not have the " + std::to_string(options_.features) +
                    " features that the model was made for");
  const torch::Dtype dtype = parameters().front().scalar_type();
  if (options_.hops == 0) return perceptron(batch.x.narrow(0, 0, batch.batch_size).to(dtype));
  require_valid(batch.edge_index.defined(),
                "GraphSAGE takes graphs of one node and one edge type; HeteroSage takes others");
  require_valid(batch.num_hops() == options_.hops || batch.is_whole(),
                "a batch of " + std::to_string(batch.num_hops()) + " hops does not fit a model of " +
                    std::to_string(options_.hops) + "; give as many fanouts as hops");
  const CompressedRows rows = batch.rows();
  torch::Tensor h = batch.x.to(dtype);  // no copy where the stored type is the model's
  for (std::int64_t l = 0; l < options_.hops; ++l) {
    const Activation activation =
        l + 1 < options_.hops ? Activation{.relu = true, .drop = drop()} : Activation{};
    h = convs_[l]->forward(h, rows.prefix(batch.num_expanded(options_.hops - l)), activation);
  }
  return h;
}

}  // namespace hopfeed
