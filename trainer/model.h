// This is GraphSAGE with mean aggregation (Hamilton, Ying, Leskovec 2017), layer by layer as PyG's SAGEConv:
//
//   h_v = W_l * mean(x_u, u in-neighbour of v) + b + W_r * x_v
//
// with ReLU and dropout between layers. Without hops it is a perceptron on the features: the
// baseline that shows what the graph adds. A batch of h hops feeds a model of h layers; each layer computes
// only the nodes that a later one reads (PyG: trim_to_layer).
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "trainer/batch_tensors.h"
#include "trainer/node_classifier.h"
#include "trainer/sage_layer.h"

namespace hopfeed {

/// SageConv is one layer. Parameters are named as in PyG: lin_l (with bias) for the neighbours, lin_r for the
/// node itself.
class SageConvImpl : public torch::nn::Module {
 public:
  SageConvImpl(std::int64_t in, std::int64_t out);
  /// Maps x [sources, in] -> [rows, out]; row i is node i.
  torch::Tensor forward(const torch::Tensor& x, const CompressedRows& rows, const Activation& activation);
  SageWeights weights() const { return {lin_l_->weight, lin_l_->bias, lin_r_->weight}; }

 private:
  torch::nn::Linear lin_l_{nullptr}, lin_r_{nullptr};
};
TORCH_MODULE(SageConv);

struct ModelOptions {
  std::int64_t hops = 3;      // sampled hops, a SAGE layer each; 0: a perceptron of kPerceptronLayers
  std::int64_t features = 0;  // width of x
  std::int64_t hidden = 128;
  std::int64_t classes = 0;
  double dropout = 0.3;
  int node_type = 0;  // of the seeds; without hops there may be others
};

class GraphSageImpl : public NodeClassifier {
 public:
  static constexpr std::int64_t kPerceptronLayers = 3;

  /// Throws kInvalid naming the option.
  explicit GraphSageImpl(const ModelOptions& options);
  /// Returns the logits [batch_size, classes] of the batch's distinct seeds; of an induced subgraph, on which
  /// every layer computes all nodes, [nodes, classes]. Throws kInvalid where hops or widths do not fit.
  torch::Tensor forward(const BatchTensors& batch);

  AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) const override {
    return to_tensors(batch, copies);
  }
  SeedLogits at_seeds(const AnyBatchTensors& batch) override;
  std::int64_t num_classes() const override { return options_.classes; }
  std::vector<LayerMaps> layers() const override;

  const ModelOptions& options() const { return options_; }
  std::int64_t num_layers() const;
  SageConvImpl& conv(std::int64_t layer) { return *convs_[layer]; }  // hops > 0
  /// Returns logits from features alone (hops = 0): [n, features] -> [n, classes].
  torch::Tensor perceptron(torch::Tensor h);

 private:
  double drop() const { return is_training() ? options_.dropout : 0; }
  ModelOptions options_;
  std::vector<SageConv> convs_;
  std::vector<torch::nn::Linear> perceptron_;
};
TORCH_MODULE(GraphSage);

}  // namespace hopfeed
