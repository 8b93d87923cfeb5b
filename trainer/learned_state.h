// LearnedState is what a model has learned at owners (dist_embedding.h): who learns it, which checkpoints
// there are of it, and the way back to one. All ranks call begin() and go_back() together.
//
// A checkpoint is a file of rank 0 (checkpoint.h) and, at every owner, a shard of each table. Owners write
// theirs first. The file names them, and its renaming is the commit: shards that no file names are nothing,
// and are removed.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset_meta.h"
#include "state/client/state_network.h"
#include "state/owner/shard_file.h"
#include "trainer/batch_tensors.h"
#include "trainer/dist_embedding.h"
#include "trainer/long_work.h"
#include "trainer/world.h"

namespace hopfeed {

/// StateCheckpoint names the shards of a checkpoint.
struct StateCheckpoint {
  std::uint64_t number = 0;                             // of the run
  std::map<std::string, std::vector<ShardSum>> shards;  // by table

  std::int64_t rows() const;  // that were learned, of all tables
  bool operator==(const StateCheckpoint&) const = default;
};

/// StateManifest is what the file of a checkpoint says of it.
struct StateManifest {
  std::uint64_t run = 0;
  std::uint32_t attempt = 0;  // the last one of the run
  StateCheckpoint now;
  std::optional<StateCheckpoint> best;  // of the best epoch's model

  std::string to_json() const;
  /// Throws kCorrupt.
  static StateManifest from_json(const std::string& text);
};

/// Owners are the servers that have the rows.
struct Owners {
  std::shared_ptr<StateNetwork> network = nullptr;  // null: rows lie whole at each trainer
  std::string tables = "";                          // begins their names; empty: nothing does

  /// Returns these, for the model of a name.
  Owners of_model(const std::string& name) const {
    return {.network = network, .tables = tables.empty() ? name : tables + "." + name};
  }
};

class LearnedState {
 public:
  /// Takes the DistEmbeddings at owners among the modules of `model`, which must outlive this, as must
  /// `world`.
  LearnedState(World& world, torch::nn::Module& model, std::shared_ptr<StateNetwork> network,
               const DatasetMeta& dataset);

  /// Whether anything is learned at owners; else no function does anything.
  bool any() const { return !tables_.empty(); }
  /// Begins a run, of first values. Waits for some seconds for another run that has the tables and may have
  /// ended. Throws what TableAtOwners throws, on all ranks.
  void begin();
  /// Gives this rank's attempt up: ranks that wait for its steps hear so. go_back() follows.
  void abandon();
  /// Begins a new attempt of a run at a checkpoint, which rank 0 names. Throws what TableAtOwners throws, on
  /// all ranks. `told` hears of it while it takes long.
  void go_back(const StateManifest& manifest, const StateCheckpoint& checkpoint, const WorkTold& told = {});

  /// Returns the number of a checkpoint that is new, the same on all ranks, which call it together.
  std::uint64_t new_number() { return ++last_number_; }

  // ---- rank 0 alone, on any thread, while this is left alone (long_work.h)
  /// Has the owners write a checkpoint of a new number; the others wait meanwhile, or take no more than one
  /// step. Throws StateLost, and what an owner could not write.
  StateCheckpoint save(std::uint64_t number);
  /// Removes the shards of all other checkpoints of a run, this one or one that is over. An owner that cannot
  /// does so when it is asked again.
  void keep(std::uint64_t run, const std::vector<std::uint64_t>& checkpoints);

  std::uint64_t run() const { return run_; }
  std::uint32_t attempt() const { return attempt_; }

 private:
  void agree(std::uint64_t run, std::uint32_t attempt);
  RankOfRun rank() const;
  void start(std::uint64_t run, std::uint32_t attempt, const StateCheckpoint* checkpoint,
             const WorkTold& told = {});
  std::optional<Error> open_tables(const StateCheckpoint* checkpoint, const WorkTold& told);
  void open_as_it_is(DistEmbeddingImpl& table, std::int64_t steps);
  void open_at(DistEmbeddingImpl& table, const StateCheckpoint* checkpoint);

  World& world_;
  const std::shared_ptr<StateNetwork> network_;
  const DatasetMeta dataset_;
  std::vector<DistEmbeddingImpl*> tables_;
  std::uint64_t run_ = 0, last_number_ = 0;
  std::uint32_t attempt_ = 0;
};

// ---- models with learned rows: by node type, empty where it has none

/// Returns the learned rows of a node type, whole or at owners.
DistEmbedding learned_rows_of(const Owners& owners, const NodeTypeMeta& type, std::int64_t width,
                              std::uint64_t seed, double lr);
/// Throws kInvalid where learned rows lie at owners, which go by dataset ids, and batches do not carry these.
/// `model` is for the message.
void require_ids_of_rows(const Owners& owners, const BatchOptions& batch, const std::string& model);
/// Returns the ids that a batch's nodes have in `rows`: dataset ids at owners, original ids where rows lie
/// whole.
const torch::Tensor& ids_of_rows(DistEmbedding& rows, const NodeTensors& nodes);
/// Asks ahead for what a batch reads of each.
void look_at_rows(std::vector<DistEmbedding>& rows, const TypedBatchTensors& batch);
/// Steps each, also behind one that has lost its state: else other ranks would wait for the others' steps.
void step_rows(std::vector<DistEmbedding>& rows, World& world);

}  // namespace hopfeed
