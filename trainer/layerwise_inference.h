// Exact scores and accuracies of node classifiers, by inference over all nodes (full_inference.h).
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "state/owner/owned_rows.h"
#include "trainer/full_inference.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

/// It is called now and then with the rows done and the rows in all.
using InferenceProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Returns the logits [nodes, classes] of all nodes of the labelled type, in the order of the dataset
/// (core/dataset/dataset.h), in the host's memory wherever the model is. Layers lie in the system's temporary
/// folder between. Throws kCorrupt where the graph is damaged, kInvalid where the model does not fit.
torch::Tensor layerwise_inference(NodeClassifier& model, const Dataset& dataset,
                                  const InferenceProgress& progress = {});

struct Accuracy {
  std::int64_t correct = 0, total = 0;  // labelled nodes
  double value() const { return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0; }
};

/// SplitAccuracies takes the scores of a run, and counts what is right in each split of the classified type,
/// of the nodes in this machine's partitions.
class SplitAccuracies final : public ResultSink {
 public:
  /// `dataset` must outlive it. Throws kNotFound without labels.
  SplitAccuracies(const Dataset& dataset, int node_type);
  Kind kind() const override { return Kind::kScores; }
  void take(const ResultRows& rows) override;
  void finish() override {}

  /// By split. To be summed over machines.
  const std::map<std::string, Accuracy>& by_split() const { return by_split_; }

 private:
  const AttrView labels_;
  const OwnedRows rows_;                            // of this machine's partitions
  std::map<std::string, std::vector<bool>> nodes_;  // by these rows
  std::map<std::string, Accuracy> by_split_;
};

/// Returns the accuracy of `logits` [nodes, classes] in the order of the dataset, over the labelled nodes of
/// a split of a node type.
Accuracy split_accuracy(const torch::Tensor& logits, const Dataset& dataset, const std::string& split,
                        int node_type = 0);
/// Returns the accuracy of `logits` [n, classes] against `labels` [n]; -1 is no label. Here as in all of
/// these, scores with a NaN among them are of no class.
Accuracy accuracy(const torch::Tensor& logits, const torch::Tensor& labels);

/// A TemporaryLayers is a folder for layers in the system's temporary folder, removed at the end of its
/// scope; what a killed process has left there is removed by the next.
class TemporaryLayers {
 public:
  TemporaryLayers();
  ~TemporaryLayers();
  TemporaryLayers(const TemporaryLayers&) = delete;
  TemporaryLayers& operator=(const TemporaryLayers&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace hopfeed
