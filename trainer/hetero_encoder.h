// A HeteroEncoder has the layers of GraphSAGE on graphs of several types: a mean aggregation per edge type
// with weights of its own, summed per node type, which has weights of its own for the node itself (as PyG's
// HeteroConv of SAGEConv with aggr="sum"):
//
//   h_v = W_type(v) * x_v + b_type(v) + sum over edge types r into v's type of W_r * mean(x_u, u in-neighbour
//   of v by r)
//
// with ReLU and dropout between layers. W_r is as wide as the input of r's source type, so types of different
// widths need no projection before. A layer has weights for what a later one reads and no more: in the last
// only the seeds' types and the edge types into them. Classifiers (hetero_sage.h) and link predictors
// (link_model.h) are made of it.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset_meta.h"
#include "trainer/batch_tensors.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

/// HopTypes say what the fanouts let a batch reach.
struct HopTypes {
  std::vector<std::vector<bool>> reached;  // [hops + 1][node type]: as seeds, by one hop, ...
  std::vector<std::vector<bool>> drawn;    // [hops][edge type]: its fanout is not 0

  std::int64_t hops() const { return static_cast<std::int64_t>(drawn.size()); }
  bool reaches(int node_type) const;  // in any hop
};
HopTypes hop_types(const DatasetMeta& dataset, const BatchOptions& batch, const std::vector<int>& seed_types);

struct HeteroEncoderOptions {
  std::vector<int> seed_types;
  std::vector<std::int64_t> input_widths;  // by node type, of those that are reached
  std::int64_t hidden = 128, out = 128;    // widths behind the layers, and behind the last
  double dropout = 0;
};

class HeteroEncoder {
 public:
  /// Makes a layer per hop, as modules layer0, layer1, ... of `owner`. `dataset` must outlive the encoder.
  HeteroEncoder(torch::nn::Module& owner, const DatasetMeta& dataset, HopTypes types,
                HeteroEncoderOptions options);

  /// Takes `h` by node type: [nodes, width], undefined where the batch has no such node. Returns what becomes
  /// of the seeds' types, [nodes of hop 0, out] (of an induced subgraph all nodes); without hops their input.
  /// Types that the batch does not reach cost nothing; their parameters get a gradient of zero, so that each
  /// takes part in every step of every rank. Throws kInvalid where hops do not fit.
  std::vector<torch::Tensor> forward(const TypedBatchTensors& batch, std::vector<torch::Tensor> h,
                                     bool training);

  const HopTypes& types() const { return types_; }
  std::vector<LayerMaps> layers() const;

 private:
  struct Relation {
    int edge_type, src_type;
    torch::nn::Linear linear;
  };
  struct Destination {
    int node_type;
    torch::nn::Linear self;
    std::vector<Relation> relations;
  };
  using Layer = std::vector<Destination>;
  struct Pass;  // one forward (hetero_encoder.cc)

  Layer make_layer(torch::nn::Module& owner, std::int64_t number) const;

  const DatasetMeta& dataset_;
  HopTypes types_;
  HeteroEncoderOptions options_;
  std::vector<Layer> layers_;
};

/// Returns a module's name for a type's: Torch's names of modules and parameters take no dot, names of types
/// no tilde.
std::string module_name(std::string type);

}  // namespace hopfeed
