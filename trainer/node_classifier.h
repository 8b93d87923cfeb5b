// A NodeClassifier is what train() trains and layer-wise inference runs: a model that says of each seed of a
// batch which class it is of.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "stream/loader_options.h"
#include "trainer/batch_tensors.h"
#include "trainer/dist_embedding.h"
#include "trainer/world.h"

namespace hopfeed {

/// SeedLogits are logits [B, classes] and labels [B] (-1: none) of a batch, one row per seed position.
struct SeedLogits {
  torch::Tensor logits, labels;
};

/// LayerMaps are one layer's linear maps, as layer-wise inference applies them: what a node of `node_type`
/// becomes is
///   weight * h_v + bias + sum over relations of weight_r * mean(h_u, u in-neighbour of v by the relation's
///   edge type),
/// with ReLU behind every layer but the last. The tensors are the model's own.
struct LayerMaps {
  struct Relation {
    int edge_type;
    torch::Tensor weight;  // [out, in of the source type]
  };
  struct Destination {
    int node_type;
    torch::Tensor weight, bias;  // [out, in], [out]
    std::vector<Relation> relations;
  };
  std::vector<Destination> destinations;  // the last layer has one: the labelled type
};

class NodeClassifier : public torch::nn::Module {
 public:
  /// Returns a batch as at_seeds() reads it: to_tensors() or to_typed_tensors().
  virtual AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) const = 0;
  virtual SeedLogits at_seeds(const AnyBatchTensors& batch) = 0;
  virtual std::int64_t num_classes() const = 0;
  virtual std::vector<LayerMaps> layers() const = 0;
  /// Returns the rows that are learned in place of features; empty where the type has features.
  virtual DistEmbedding learned_rows(int /*node_type*/) const { return nullptr; }
  /// Asks ahead for those at owners that a batch reads.
  virtual void look(const AnyBatchTensors& /*batch*/) {}
  /// Takes their optimizer's step, beside that of parameters(), which they are not among. All ranks call it
  /// together.
  virtual void step_learned_rows(World& /*world*/) {}
};

/// Returns the width of the features "x" of a node type; 0 where it has none.
inline std::int64_t feature_width(const NodeTypeMeta& nodes) {
  for (const AttrMeta& attr : nodes.attrs) {
    if (attr.name == "x") return attr.row_elements();
  }
  return 0;
}

}  // namespace hopfeed
