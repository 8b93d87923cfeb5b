// See loader.h. Which stream it is, and nothing else.
#include "worker_mode/loader.h"

#include "gpu/device/cuda_engine.h"
#include "gpu/device/gpu_sampling.h"
#include "worker_mode/device_stream.h"
#include "worker_mode/in_process_stream.h"
#include "worker_mode/worker_stream.h"

namespace hopfeed {
namespace {

std::unique_ptr<ChannelStream> open(const LoaderOptions& options) {
  options.deal.validate();
  options.execution.validate();
  require_graph_mode(options.execution.gpu);  // workers would find out one by one
  const std::shared_ptr<gpu::DeviceRoom> room =
      options.execution.gpu.device_batches ? gpu::make_cuda_room(options.execution.gpu.gpu_device) : nullptr;
  if (options.execution.num_workers > 0) return WorkerStream::open(options, room);
  if (room) return DeviceStream::open(options, room);
  return InProcessStream::open(options);
}

}  // namespace

Loader::Loader(const LoaderOptions& options) : stream_(open(options)) {}
Loader::~Loader() = default;

void Loader::begin_epoch(std::int64_t epoch, std::int64_t start) { stream_->begin_epoch(epoch, start); }
std::optional<Batch> Loader::next() { return stream_->next(); }
std::int64_t Loader::steps() const { return stream_->steps(); }
std::int64_t Loader::num_seeds() const { return stream_->num_seeds(); }
std::int64_t Loader::next_position() const { return stream_->next_position(); }
StreamStats Loader::stats() const { return stream_->stats(); }
bool Loader::crowded() const { return stream_->crowded(); }
const BatchSpec& Loader::spec() const { return stream_->spec(); }
const DealOptions& Loader::deal() const { return stream_->deal(); }
const DatasetMeta& Loader::meta() const { return stream_->meta(); }
std::vector<int> Loader::worker_pids() const { return stream_->worker_pids(); }

}  // namespace hopfeed
