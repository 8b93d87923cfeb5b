// Infers exactly for all nodes, layer by layer: each layer is computed once for every node from all its
// in-neighbours, so nothing is sampled and nothing computed twice (Hamilton et al. 2017; PyG's and DGL's
// `inference`). Features are read once, front to back: they are multiplied before they are averaged, which
// commutes.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/dataset/dataset.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

/// It is called now and then with the rows done and the rows in all.
using InferenceProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Returns the logits [nodes, classes] of all nodes of the labelled type, in the order of the dataset
/// (core/dataset/dataset.h), in the host's memory wherever the model is. It needs two matrices of nodes x
/// hidden for each type and one of the largest beside the mapped files. Throws kCorrupt where the graph is
/// damaged, kInvalid where the model does not fit.
torch::Tensor layerwise_inference(NodeClassifier& model, const Dataset& dataset,
                                  const InferenceProgress& progress = {});

struct Accuracy {
  std::int64_t correct = 0, total = 0;  // labelled nodes
  double value() const { return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0; }
};

/// Returns the accuracy of `logits` [nodes, classes] in the order of the dataset, over the labelled nodes of
/// a split of a node type.
Accuracy split_accuracy(const torch::Tensor& logits, const Dataset& dataset, const std::string& split,
                        int node_type = 0);
/// Returns the accuracy of `logits` [n, classes] against `labels` [n]; -1 is no label.
Accuracy accuracy(const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace hopfeed
