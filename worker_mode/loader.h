// A Loader is a BatchStream over sampling workers of this machine (worker mode), or, with
// execution.num_workers = 0, over the calling thread.
//
//   Loader loader({.dataset = "data", .deal = {.batch_size = 512, .rank = rank, .world_size = world}});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     loader.begin_epoch(epoch);
//     while (std::optional<Batch> batch = loader.next()) train(batch->view());
//   }
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch/batch_stream.h"
#include "stream/loader_options.h"

namespace hopfeed {

class Loader final : public BatchStream {
 public:
  /// Opens the dataset, checks memory, makes the channel, starts the workers and waits until all are ready.
  /// Throws kInvalid, kNotFound, kNoSpace, kPeerDied, kTimeout, each naming the option, file or worker.
  explicit Loader(const LoaderOptions& options);
  /// Ends the workers (terminate, then kill) and frees the channel; batches still held stay readable.
  ~Loader() override;

  void begin_epoch(std::int64_t epoch, std::int64_t start = 0) override;
  std::optional<Batch> next() override;
  std::int64_t steps() const override;
  std::int64_t num_seeds() const override;
  std::int64_t next_position() const override;
  StreamStats stats() const override;
  bool crowded() const override;
  const BatchSpec& spec() const override;
  const DealOptions& deal() const override;
  const DatasetMeta& meta() const override;

  std::vector<int> worker_pids() const;  // for tests and hopfeed-top; none in the calling thread

 private:
  std::unique_ptr<class ChannelStream> stream_;
};

}  // namespace hopfeed
