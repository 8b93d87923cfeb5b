// LinkModel is a link predictor: two towers and an edge classifier, as in PyG's tutorial on bipartite graphs.
// The towers are the layers of hetero_encoder.h that end at the links' source and destination types, on
// features, or on learned rows (dist_embedding.h) of the node types that have none; the classifier is a
// perceptron of one hidden layer on both ends' vectors side by side:
//
//   score(u, v) = w * relu(W [z_u, z_v] + b) + c
//
// Without hops z is the input itself: the baseline that shows what the graph adds.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset_meta.h"
#include "trainer/batch_tensors.h"
#include "trainer/hetero_encoder.h"
#include "trainer/learned_state.h"
#include "trainer/world.h"

namespace hopfeed {

struct LinkModelOptions {
  DatasetMeta dataset;       // whose types the model has
  BatchOptions batch;        // a layer per hop; an edge type has weights in layers whose hops draw it
  std::string edge_type;     // of the links
  std::int64_t hidden = 64;  // also the width of learned rows
  double dropout = 0;
  std::uint64_t seed = 0;       // of learned rows' first values
  double embedding_lr = 0.001;  // of learned rows
  Owners owners = {};           // of learned rows; whole at each trainer without
};

class LinkModelImpl : public torch::nn::Module {
 public:
  /// Throws kInvalid naming the option.
  explicit LinkModelImpl(const LinkModelOptions& options);
  /// Returns the scores (logits) of the batch's links, [P + N] in the order of edge_label_index. Throws
  /// kInvalid where hops, widths or the kind of negatives do not fit.
  torch::Tensor forward(const TypedBatchTensors& batch);
  /// Asks ahead for the learned rows at owners that a batch reads.
  void look(const TypedBatchTensors& batch) { look_at_rows(embeddings_, batch); }
  /// Takes the optimizer's step of the learned rows, beside that of parameters(), which they are not among.
  /// All ranks call it together.
  void step_embeddings(World& world) { step_rows(embeddings_, world); }

  const LinkModelOptions& options() const { return options_; }
  /// Returns the towers' layers, which end at end_types(), the links' source and destination types.
  std::vector<LayerMaps> layers() const { return encoder_->layers(); }
  std::vector<int> end_types() const;
  /// Returns the rows that are learned in place of features, by node type.
  const std::vector<DistEmbedding>& learned_rows() const { return embeddings_; }
  std::int64_t num_learned_rows() const;  // that a step has moved, of all types; of those that lie whole here

 private:
  void make_embeddings(const HopTypes& types);
  torch::Tensor input(int node_type, const NodeTensors& nodes);

  LinkModelOptions options_;
  int link_type_, src_type_, dst_type_;
  std::vector<DistEmbedding> embeddings_;  // by node type; empty where it has features or is not reached
  std::optional<HeteroEncoder> encoder_;
  torch::nn::Linear both_{nullptr}, score_{nullptr};
};
TORCH_MODULE(LinkModel);

}  // namespace hopfeed
