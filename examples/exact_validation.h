// Exact accuracies of a model over all nodes, also where these lie on several machines: one process of each
// computes its partitions, and the counts are summed.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "peers/peer_options.h"
#include "trainer/layerwise_inference.h"
#include "trainer/node_classifier.h"
#include "trainer/world.h"

namespace hopfeed {

struct ExactValidation {
  std::filesystem::path dataset;
  std::string node_type;         // that is classified; empty: the first
  PeerOptions peers;             // of the other partitions; none: one process computes all
  std::filesystem::path layers;  // of this machine, which its hopfeed-server --results serves; with peers
  int threads = 1;
  std::string title;  // of the progress bar
};

/// Returns the accuracies by split. All ranks call it together; others wait for those that compute.
std::map<std::string, Accuracy> exact_accuracies(World& world, NodeClassifier& model,
                                                 const ExactValidation& task);

}  // namespace hopfeed
