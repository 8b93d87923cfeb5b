// GraphSAGE on graphs of several node and edge types: a mean aggregation per edge type with weights of its own, summed per
// node type, which has weights of its own for the node itself (as PyG's HeteroConv of SAGEConv with aggr="sum"):
//
//   h_v = W_type(v) * x_v + b_type(v) + sum over edge types r into v's type of W_r * mean(x_u, u in-neighbour of v by r)
//
// with ReLU and dropout between layers. W_r is as wide as the features of r's source type, so types of different widths need
// no projection before; node types without features have a learned row per node instead. A layer has weights for what a
// later one reads and no more: in the last only the seeds' type and the edge types into it.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "core/batch_options.h"
#include "core/dataset_meta.h"
#include "trainer/batch_tensors.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

struct HeteroOptions {
  DatasetMeta dataset;  // whose types the model has
  BatchOptions batch;   // a layer per hop; an edge type has weights in layers whose hops draw it
  int seed_type = 0;
  std::int64_t hidden = 128;
  double dropout = 0.3;
};

class HeteroSageImpl : public NodeClassifier {
 public:
  /// Throws kInvalid naming the option.
  explicit HeteroSageImpl(const HeteroOptions& options);
  /// Logits [batch_size, classes] of the batch's distinct seeds. Types that the batch does not reach cost nothing; their
  /// parameters get a gradient of zero, so that each takes part in every step of every rank. Throws kInvalid where hops or
  /// widths do not fit.
  torch::Tensor forward(const TypedBatchTensors& batch);
  /// The same of a batch of the dataset that the model was made for.
  SeedLogits at_seeds(const Batch& batch) override;

  std::int64_t num_classes() const override { return nodes(options_.seed_type).num_classes; }
  std::vector<LayerMaps> layers() const override;
  torch::Tensor embedding(int node_type) const override { return embeddings_[node_type]; }
  const HeteroOptions& options() const { return options_; }

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
  struct Pass;  // one forward (hetero_sage.cc)

  const NodeTypeMeta& nodes(int type) const { return options_.dataset.node_types[type]; }
  void find_reached();
  void make_embeddings();
  Layer make_layer(std::int64_t number);
  bool is_reached(int node_type) const;  // by a batch, as far as the fanouts say
  torch::Tensor input(int node_type, const NodeTensors& in) const;
  std::int64_t input_width(int node_type, std::int64_t layer) const;

  HeteroOptions options_;
  std::int64_t hops_;
  std::vector<std::vector<bool>> reached_;  // [hops + 1][node type]: as seeds, by one hop, ...
  std::vector<std::vector<bool>> drawn_;    // [hops][edge type]: its fanout is not 0
  std::vector<torch::Tensor> embeddings_;   // by node type; undefined where it has features or is not reached
  std::vector<Layer> layers_;
};
TORCH_MODULE(HeteroSage);

}  // namespace hopfeed
