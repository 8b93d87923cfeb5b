// HeteroSage is GraphSAGE on graphs of several node and edge types, as a classifier of the nodes of one type:
// the layers of hetero_encoder.h on features, or on learned rows (dist_embedding.h) of the node types that
// have none.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset_meta.h"
#include "trainer/batch_tensors.h"
#include "trainer/hetero_encoder.h"
#include "trainer/learned_state.h"
#include "trainer/node_classifier.h"
#include "trainer/world.h"

namespace hopfeed {

struct HeteroOptions {
  DatasetMeta dataset;  // whose types the model has
  BatchOptions batch;   // a layer per hop; an edge type has weights in layers whose hops draw it
  int seed_type = 0;
  std::int64_t hidden = 128;  // also the width of learned rows
  double dropout = 0.3;
  std::uint64_t seed = 0;       // of learned rows' first values
  double embedding_lr = 0.003;  // of learned rows
  Owners owners = {};           // of learned rows; whole at each trainer without
};

class HeteroSageImpl : public NodeClassifier {
 public:
  /// Throws kInvalid naming the option.
  explicit HeteroSageImpl(const HeteroOptions& options);
  /// Returns the logits [batch_size, classes] of the batch's distinct seeds. Throws kInvalid where hops or
  /// widths do not fit.
  torch::Tensor forward(const TypedBatchTensors& batch);
  /// Returns the logits of the seeds of a batch of the dataset that the model was made for.
  SeedLogits at_seeds(const AnyBatchTensors& batch) override;
  AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) const override {
    return to_typed_tensors(batch, options_.dataset, copies);
  }

  std::int64_t num_classes() const override { return nodes(options_.seed_type).num_classes; }
  std::vector<LayerMaps> layers() const override { return encoder_->layers(); }
  DistEmbedding learned_rows(int node_type) const override {
    return embeddings_[static_cast<std::size_t>(node_type)];
  }
  void look(const AnyBatchTensors& batch) override {
    look_at_rows(embeddings_, std::get<TypedBatchTensors>(batch));
  }
  void step_learned_rows(World& world) override { step_rows(embeddings_, world); }
  const HeteroOptions& options() const { return options_; }

 private:
  const NodeTypeMeta& nodes(int type) const { return options_.dataset.node_types[type]; }
  void make_embeddings(const HopTypes& types);
  torch::Tensor input(int node_type, const NodeTensors& in);

  HeteroOptions options_;
  std::vector<DistEmbedding> embeddings_;  // by node type; empty where it has features or is not reached
  std::optional<HeteroEncoder> encoder_;
};
TORCH_MODULE(HeteroSage);

/// Returns the width of what a batch brings for the nodes of each type: of its features, `learned` where it
/// has none.
std::vector<std::int64_t> input_widths(const DatasetMeta& dataset, std::int64_t learned);
/// Returns the features of the nodes of a batch as `dtype`; no copy where they are stored so. Throws kInvalid
/// where they are not as wide as the dataset says.
torch::Tensor input_features(const NodeTypeMeta& type, const NodeTensors& nodes, torch::Dtype dtype);

}  // namespace hopfeed
