// The stream without workers (num_workers = 0): the thread that calls next() samples and gathers the batch
// itself, into slots of a channel of its own, so that order, errors, memory bounds and what is told of each
// batch are those of worker mode. Nothing is sampled ahead, and a crash ends the caller.
#pragma once
#include <memory>
#include <optional>

#include "cache/dynamic_cache.h"
#include "channel/machine_memory.h"
#include "core/maker/batch_maker.h"
#include "stream/channel_stream.h"
#include "stream/loader_parts.h"
#include "worker_mode/batch_filler.h"

namespace hopfeed {

class InProcessStream final : public ChannelStream {
 public:
  /// Opens a stream as Loader's constructor does, of options that are checked.
  static std::unique_ptr<InProcessStream> open(const LoaderOptions& options);
  ~InProcessStream() override;

 private:
  InProcessStream(const LoaderOptions& options, LoaderParts parts);
  void work() override;

  const LoaderParts parts_;
  const std::unique_ptr<const MachineMemory> row_cache_memory_;  // null: none
  const std::unique_ptr<DynamicCache> row_cache_;
  BatchMaker maker_;
  std::optional<WorkerPort> port_;
  std::optional<BatchFiller> filler_;
  std::uint64_t batches_ = 0;  // begun
};

}  // namespace hopfeed
