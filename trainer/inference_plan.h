// An InferencePlan says how a model's layers become tables of rows, one for each node of a type: which there
// are, what each is computed from, and in which order. It follows from the model and the graph's types alone.
//
// A layer is linear in the mean of a node's in-neighbours, so either may come first. Rows are averaged as
// narrow as they ever are: the product comes first where it makes rows narrower, and gives a table of its own
// ("m2.e0"); else the mean does.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "results/layer_files.h"
#include "trainer/link_model.h"
#include "trainer/node_classifier.h"

namespace hopfeed {

/// InferredModel is what inference needs of a model: its layers, with ReLU behind each but the last.
struct InferredModel {
  std::string title;
  std::vector<LayerMaps> layers;
  bool relu_behind_last = false;       // of towers
  std::vector<int> results;            // node types that it gives rows of
  std::int64_t classes = 0;            // 0: it does not classify, and its last rows are the embeddings
  std::vector<DistEmbedding> learned;  // by node type; empty where the type has features
  /// Names all rows that training has learned, where `learned` has those of this machine alone: the same on
  /// all machines.
  std::string rows_digest = {};
};
InferredModel inferred(const NodeClassifier& model, const Dataset& dataset, const std::string& title);
InferredModel inferred(const LinkModelImpl& model);

/// A Table has a row of float32 for each node of a type; that of features has them as they are stored.
struct InferenceTable {
  LayerName name;
  int node_type = 0;
  std::int64_t width = 0;
  std::int64_t row_bytes = 0;
  enum class Kind { kFeatures, kLearned, kComputed } kind = Kind::kComputed;
};

/// A Term is a part of what a stage adds up.
struct InferenceTerm {
  enum class Kind {
    kSelf,       // the node's own row times `weight`
    kMean,       // the mean of the in-neighbours' rows times `weight`
    kMeanAdded,  // that mean as it is
  } kind = Kind::kSelf;
  std::size_t table = 0;  // that is read
  int edge_type = -1;
  torch::Tensor weight = {};  // [out, width of the table], float32, in the host's memory
};

/// A Stage computes a table: relu(sum of terms + bias).
struct InferenceStage {
  std::size_t table = 0;
  std::vector<InferenceTerm> terms;
  torch::Tensor bias = {};  // [out] or undefined
  bool relu = false;
};

struct InferencePlan {
  std::vector<InferenceTable> tables;
  std::vector<InferenceStage> stages;           // in order; that of a learned table has no terms
  std::vector<std::size_t> embeddings, scores;  // tables, one for each of the model's results; or none

  /// Returns the last stage that reads a table; -1: none does.
  int last_use(std::size_t table) const;
};

/// Throws kInvalid naming the node type and the widths where the model does not fit the dataset.
InferencePlan plan_inference(const InferredModel& model, const Dataset& dataset);

}  // namespace hopfeed
