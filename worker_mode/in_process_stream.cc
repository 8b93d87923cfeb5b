// See in_process_stream.h.
#include "worker_mode/in_process_stream.h"

#include <unistd.h>

#include <bit>
#include <utility>

#include "cache/file_features.h"
#include "core/sampler/sampler_plugin.h"
#include "gpu/device/gpu_sampling.h"
#include "gpu/memory/setup_times.h"
#include "peers/open_partitions.h"
#include "stream/batch_memory.h"
#include "stream/loader_source.h"
#include "stream/slot_keeper.h"
#include "worker_mode/shared_row_cache.h"

namespace hopfeed {

std::unique_ptr<InProcessStream> InProcessStream::open(const LoaderOptions& options) {
  for (const std::string& plugin : options.execution.plugins) load_sampler_plugin(plugin);
  check_batch_options(options.batch);
  std::unique_ptr<const Dataset> dataset = open_partitions(options.dataset, options.execution.partitions,
                                                           PeersAt::kKnown, options.execution.huge_pages);
  auto source = loader_source(options, *dataset);
  return std::unique_ptr<InProcessStream>(
      new InProcessStream(options, std::move(dataset), std::move(source)));
}

InProcessStream::InProcessStream(const LoaderOptions& options, std::unique_ptr<const Dataset> dataset,
                                 std::unique_ptr<const BatchSource> source)
    : ChannelStream(options, loader_spec(options, *dataset, *source), dataset->meta(), source->size()),
      dataset_(std::move(dataset)),
      source_(std::move(source)),
      row_cache_memory_(shared_row_cache(*dataset_, options.execution.features)),
      row_cache_(row_cache_memory_ ? std::make_unique<DynamicCache>(row_cache_memory_->fd()) : nullptr),
      maker_(source_->maker(*dataset_, options.batch, neighbor_samplers(options.execution.gpu),
                            feature_sources(options.execution.features.from, row_cache_.get()))) {
  make_channel(options, maker_);
  maker_.bound_scratch(batch_budget(memory_of_worker(options)));
  SlotKeeper(host()).welcome(0);  // the calling thread is the one filler there ever is
  port_.emplace(host()->view(), 0, /*doorbell=*/-1);
  filler_.emplace(*port_, maker_,
                  FillerOptions{.seed = options.seed, .check_finite = options.execution.check_finite});
  host()->view().worker(0).pid.store(static_cast<std::uint32_t>(getpid()));
  port_->report_ready();
}

InProcessStream::~InProcessStream() {
  if (host()->in_own_process()) host()->close();
}

/// Makes the batch that is next, where none is ready: the lowest that is planned. Where its memory is still
/// the caller's, it stays under way, next() says so, and the call after that goes on with it.
void InProcessStream::work() {
  host()->service();
  if (filler_->under_way()) {
    if (!filler_->try_finish()) return;
    host()->service();
  }
  if (channel().next_is_ready()) return;
  const std::optional<Claim> claim = port_->try_claim();
  if (!claim) return;
  filler_->begin(*claim);
  filler_->ask();
  host()->service();  // grants
  filler_->try_finish();
  // Asking the kernel takes milliseconds, so it is asked ever more seldom.
  if (!std::has_single_bit(++batches_)) return;
  port_->note_pages(dataset_->page_use());
  port_->note_gpu_setup(gpu::setup_times());
}

}  // namespace hopfeed
