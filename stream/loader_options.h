// What a stream of batches is asked for, whoever makes them: workers of this machine, the calling thread,
// servers.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/batch_stream.h"
#include "core/batch/deal.h"
#include "core/seeds/link_set.h"
#include "stream/local_execution.h"

namespace hopfeed {

/// Where drop_last leaves no batch of an epoch: refused, or epochs without a batch, as PyG has them.
enum class EmptyEpochs { kRefused, kAllowed };

/// What to make: dataset to shuffle, which become a BatchSpec; who gets which of it: deal; how: execution.
struct LoaderOptions {
  std::string dataset;    // the dataset folder
  BatchOptions batch;     // what is sampled and gathered
  std::string node_type;  // empty: the first
  /// Seeds: a split of the dataset, or these original ids, or the nodes set in a mask; times and weights go
  /// with them (core/seeds/node_set.h; checked at construction). Sampler "cluster" takes a node of each
  /// cluster where neither ids nor mask are given.
  std::string split = "train";
  std::optional<std::vector<std::int64_t>> seeds = std::nullopt;
  std::optional<std::vector<std::uint8_t>> seed_mask = std::nullopt;
  std::vector<std::int64_t> seed_times = {};
  std::vector<double> seed_weights = {};
  /// With batch.link, in place of all of the above but the dataset: a split of its edge type, or these pairs,
  /// with labels and times (core/seeds/link_set.h). A batch has batch_size links; where not set, those of
  /// split "train".
  std::optional<LinkInput> links = std::nullopt;
  std::uint64_t seed = 0;
  bool shuffle = true;
  DealOptions deal = {};
  EmptyEpochs empty_epochs = EmptyEpochs::kRefused;
  LocalExecution execution = {};
  /// Called for each batch that was handed out, by whichever thread drops its last view (at times after the
  /// loader's end). Must not throw.
  std::function<void(const BatchRecord&)> observer = nullptr;
  /// Called about ten times a second while next() waits, by the thread that waits, with no lock held. What it
  /// throws leaves next(); no batch is lost by it. For callers that have to look for signals themselves.
  std::function<void()> while_waiting = nullptr;

  /// Hands over every field that programs and Python have, those of its structs too.
  void visit(FieldVisitor& fields);
};

}  // namespace hopfeed
