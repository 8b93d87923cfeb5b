// The loader: what a trainer iterates. It owns a channel and its sampling workers, plans batches by the deal,
// and hands them out in order as views into shared memory. Worker mode: workers run on this machine, one set
// per loader.
//
//   Loader loader({.dataset = "data", .split = "train", .rank = rank, .world_size = world});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     loader.begin_epoch(epoch);
//     while (std::optional<Batch> batch = loader.next()) train(batch->view());
//   }
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/batch_view.h"
#include "core/maker/batch_source.h"
#include "core/seeds/link_seeds.h"
#include "core/seeds/node_set.h"
#include "worker_mode/wait_times.h"

namespace hopfeed {

/// Where the time of one batch went: seconds of CLOCK_MONOTONIC, from the slot's control record.
struct BatchTimes {
  double planned = 0, claimed = 0, sampled = 0, gathered = 0, published = 0, taken = 0;
  double released = 0;  // 0 while the batch is viewed
};

/// What became of one batch, told when its last view is gone.
struct BatchRecord {
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint32_t worker = 0;
  std::size_t bytes = 0;
  BatchTimes times;
  double asked = 0;  // next() was called for it,
  double left = 0;   // and for what comes after it; released where that was earlier
};

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
  /// with labels and times (core/seeds/link_seeds.h). A batch has batch_size links; where not set, those of
  /// split "train".
  std::optional<LinkInput> links = std::nullopt;
  std::int64_t batch_size = 1024;
  bool shuffle = true;
  bool drop_last = false;
  /// Workers look through each batch, and next() throws kInvalid for one whose node attributes hold NaN or
  /// infinity.
  bool check_finite = false;
  std::uint64_t seed = 0;
  std::int64_t rank = 0, world_size = 1;
  std::int64_t num_workers = 1;
  /// Bytes the channel may hold; 0: four worst-case batches per worker, or one in each slot where that is no
  /// more than 64 MiB; at most a quarter of the memory that is available (LOCAL_WORLD_SIZE ranks share it).
  std::size_t channel_size = 0;
  std::int64_t num_slots = 0;  // batches planned ahead; 0: 2 * num_workers + 2
  /// Workers are placed on these in turn; empty: the machine's cores dealt so that ranks, workers and
  /// trainers do not fight (core_placement.h).
  std::vector<int> cores;
  HugePages huge_pages = HugePages::kAuto;  // of the dataset, in every worker
  /// A worker that fills one batch for longer is killed, and the batch made again. Each deadline is at most a
  /// year.
  std::chrono::milliseconds batch_deadline{120'000};
  std::chrono::milliseconds start_deadline{30'000};
  /// Of one worker, in a row, without a finished batch by any; then next() throws kPeerDied with the last
  /// cause. Workers that are killed together, however many, are started again together.
  int max_worker_restarts = 10;
  /// Called for each batch that was handed out, by whichever thread drops its last view (at times after the
  /// loader's end). Must not throw.
  std::function<void(const BatchRecord&)> observer;
  std::vector<std::string>
      plugins;                 // shared libraries with samplers of one's own (core/sampler/sampler_plugin.h)
  std::string worker_program;  // empty: HOPFEED_WORKER, else hopfeed-worker beside this program, else on PATH
};

/// The seeds that the options name, of a dataset that is open. Throws what NodeSet throws.
std::unique_ptr<NodeSet> loader_seeds(const LoaderOptions& options, const Dataset& dataset);
/// The seeds or links that the options name, in their order. Throws what NodeSet and LinkSet throw, and
/// kInvalid for options of nodes beside links.
std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset);

/// A batch in its slot. Copies share the slot; it is free again when the last copy is gone. May outlive the
/// loader.
class Batch {
 public:
  struct Lease;  // owns the slot (loader.cc)
  Batch(BatchView view, std::shared_ptr<const Lease> lease) : view_(view), lease_(std::move(lease)) {}
  const BatchView& view() const { return view_; }
  BatchTimes times() const;

 private:
  BatchView view_;
  std::shared_ptr<const Lease> lease_;
};

struct LoaderStats {
  std::int64_t batches = 0;  // handed out since construction
  std::int64_t worker_deaths = 0;
  std::int64_t batches_remade = 0;  // planned again after a death
  WaitTimes waits;                  // seconds that next() and the workers waited
  PageUse dataset_pages;  // of the worker that has most of the dataset in its memory, when it last looked
  std::size_t channel_bytes = 0;  // allocated now
};

class Loader {
 public:
  /// Opens the dataset, checks memory, makes the channel, starts the workers and waits until all are ready.
  /// Throws kInvalid, kNotFound, kNoSpace, kPeerDied, kTimeout, each naming the option, file or worker.
  explicit Loader(const LoaderOptions& options);
  /// Ends the workers (terminate, then kill) and frees the channel; batches still held stay readable.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts epoch `epoch` at seed position `start`; a running epoch is left. Throws kInvalid where start is
  /// out of range or leaves some rank without a batch.
  void begin_epoch(std::int64_t epoch, std::int64_t start = 0);
  /// The next batch of this rank in the order of the deal; nothing at the end of the epoch. Throws kInvalid
  /// where the caller holds every slot itself, kPeerDied, kTimeout or kCorrupt where no batch can be made.
  std::optional<Batch> next();

  std::int64_t steps() const;      // batches of this epoch for this rank
  std::int64_t num_seeds() const;  // of the whole list; with links the number of these
  std::int64_t next_position()
      const;  // first position not consumed by the rounds handed out: what a checkpoint stores
  LoaderStats stats() const;
  std::vector<int> worker_pids() const;  // for tests and hopfeed-top

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
