// See in_process_stream.h.
#include "worker_mode/in_process_stream.h"

#include <unistd.h>

#include <bit>
#include <utility>

#include "cache/file_features.h"
#include "gpu/device/gpu_sampling.h"
#include "gpu/memory/setup_times.h"
#include "stream/batch_memory.h"
#include "stream/slot_keeper.h"
#include "worker_mode/shared_row_cache.h"

namespace hopfeed {

std::unique_ptr<InProcessStream> InProcessStream::open(const LoaderOptions& options) {
  return std::unique_ptr<InProcessStream>(new InProcessStream(options, open_parts(options)));
}

InProcessStream::InProcessStream(const LoaderOptions& options, LoaderParts parts)
    : ChannelStream(options, parts.spec, parts.dataset->meta(), parts.source->size()),
      parts_(std::move(parts)),
      row_cache_memory_(shared_row_cache(*parts_.dataset, options.execution.features)),
      row_cache_(row_cache_memory_ ? std::make_unique<DynamicCache>(row_cache_memory_->fd()) : nullptr),
      maker_(parts_.source->maker(*parts_.dataset, options.batch, neighbor_samplers(options.execution.gpu),
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
  port_->note_pages(parts_.dataset->page_use());
  port_->note_gpu_setup(gpu::setup_times());
}

}  // namespace hopfeed
