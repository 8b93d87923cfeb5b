// Infers exactly for all nodes, layer by layer: each layer is computed once for every node of this machine's
// partitions from all its in-neighbours, so nothing is sampled and nothing computed twice (Hamilton et al.
// 2017; PyG's and DGL's `inference`; over partitions: Deal, arXiv 2503.02960). Rows that lie with other
// machines are fetched once a layer. Layers lie in files between: they may exceed the memory, and a run that
// was killed goes on from the shards that are whole. Beside what InferenceOptions::memory bounds there are
// two shards, a block for each thread, and, over several machines, a bit and an eighth for each node of a
// type that edges come from: once for all tables that are read over the same edge types.
//
// On the CPU a row has the same bits for any cut, threads, memory and number of machines, resumed or not, on
// one kind of processor and version of Torch.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "results/boundary_peers.h"
#include "results/layer_files.h"
#include "results/partition_rows.h"
#include "results/run_folder.h"
#include "trainer/inference_plan.h"

namespace hopfeed {

struct InferenceOptions {
  std::filesystem::path folder;                   // of layers between; hopfeed-server --results serves it
  LeftRows left = LeftRows::kStay;                // of another run in the folder
  Sync sync = Sync::kYes;                         // of layers; a folder that nobody goes on with needs none
  std::uint64_t memory = std::uint64_t{4} << 30;  // bytes of source rows at a time
  int threads = 1;
  std::int64_t shard_bytes = kShardBytes;  // of a file of rows; another number is another run
  torch::Device device = torch::kCPU;      // of products
  bool check_finite = false;               // NaN and infinity in features are errors
  BoundaryPeers* peers = nullptr;          // who has the layers of other partitions; must outlive the run
  /// Is called now and then with the rows done and the rows in all; what it throws ends the run, which may go
  /// on later.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

/// ResultRows are rows of one of the model's results, of a shard.
struct ResultRows {
  int node_type = 0, partition = 0;
  std::int64_t number = 0;  // of the shard in its partition
  std::int64_t first = 0, count = 0, width = 0;
  const float* rows = nullptr;  // [count, width]
};

/// ResultDisk is what a sink writes.
struct ResultDisk {
  std::filesystem::path folder;          // that is there
  std::uint64_t bytes = 0, written = 0;  // at most; of these by an earlier process
};

/// A ResultSink takes rows that a run gives.
class ResultSink {
 public:
  enum class Kind { kEmbeddings, kScores };
  virtual ~ResultSink() = default;
  virtual Kind kind() const = 0;
  /// Returns whether an earlier process has given it all.
  virtual bool finished() const { return false; }
  /// Returns what it writes; nothing where it is finished.
  virtual ResultDisk disk() const { return {}; }
  virtual void take(const ResultRows& rows) = 0;
  virtual void finish() = 0;
};

/// What a run takes on disk: bytes, at most at any time.
struct InferenceDisk {
  std::uint64_t layers = 0;  // with what is fetched, and means that are computed in slices
  std::uint64_t results = 0;
};

class FullInference {
 public:
  /// `dataset` must outlive it. Throws kInvalid where the model does not fit.
  FullInference(const InferredModel& model, const Dataset& dataset, InferenceOptions options);
  FullInference(const FullInference&) = delete;
  FullInference& operator=(const FullInference&) = delete;
  ~FullInference();

  /// Names what decides the bytes of all rows: model, learned rows, dataset, cut, Torch and processor.
  RunId run_id() const;
  const InferencePlan& plan() const;
  InferenceDisk disk(const std::vector<ResultSink*>& sinks) const;

  /// Takes the folder of layers, which run() else does. Throws kBusy where another run has it, kInvalid where
  /// it is none for layers.
  void take_folder();
  /// Runs, and removes the layers behind it; where another machine has not yet fetched all that it needs of
  /// them, those stay until it has (remove_if_fetched). Throws kBusy where another run has the folder,
  /// kInvalid where a sink wants what the model has not, kNoSpace before anything is computed where the disk
  /// is too small, kCorrupt, what the peers throw.
  void run(const std::vector<ResultSink*>& sinks);
  /// Returns whether the last run has left layers for other machines.
  bool left_layers() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the kind of this processor, as rows depend on it: "AVX512, Intel(R) Xeon(R) ...".
std::string processor_kind();

}  // namespace hopfeed
