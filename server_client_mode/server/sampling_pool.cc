// See sampling_pool.h.
#include "server_client_mode/server/sampling_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "channel/futex.h"
#include "channel/memory.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "worker_mode/core_placement.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kFewestSlots = 64, kSlotsPerWorker = 8;
constexpr std::size_t kAddressSpace = std::size_t{1} << 45;  // for the slots; it costs nothing
constexpr std::chrono::nanoseconds kStayAwake{50'000};
constexpr std::size_t kLeastScratch = std::size_t{64} << 20;

std::size_t scratch_of_each(std::int64_t workers) {
  return std::max(kLeastScratch, available_memory().bytes / 4 / static_cast<std::size_t>(workers));
}

}  // namespace

ChannelPlan plan_sampling_pool(std::int64_t num_workers, std::size_t max_memory) {
  const auto slots =
      std::bit_ceil(static_cast<std::uint64_t>(std::max(kFewestSlots, kSlotsPerWorker * num_workers)));
  const std::uint64_t num_slots = std::min<std::uint64_t>(slots, kMaxSlots);
  const std::size_t half = max_memory / 2;
  const std::size_t stride = std::min({half, kMaxBlockBytes, kAddressSpace / num_slots});
  ChannelPlan sizes;
  // Rounded down: no slot may hold more than the allowance.
  sizes.shape = {.num_slots = static_cast<std::uint32_t>(num_slots),
                 .num_workers = static_cast<std::uint32_t>(num_workers),
                 .slot_stride = stride / kHugePageBytes * kHugePageBytes};
  sizes.pool = {.channel_size = half, .allowance = half};
  sizes.needed = ChannelView::fixed_bytes(sizes.shape) + max_memory;
  return sizes;
}

SamplingPool::SamplingPool(const SamplingPoolOptions& options)
    : options_(options),
      host_(std::make_shared<ChannelHost>(plan_sampling_pool(options.num_workers, options.max_memory))),
      plan_(std::make_shared<FairPlan>(
          FairPlanOptions{.workers = options.num_workers,
                          .slots = static_cast<std::int64_t>(host_->view().shape().num_slots),
                          .bytes = host_->sizes().pool.channel_size})) {
  {
    const MutexLock lock(host_->mutex);
    host_->plan_from(plan_);
  }
  SupervisorOptions supervision;
  supervision.program = options.worker_program;
  supervision.config.asks_for_jobs = true;
  supervision.config.max_scratch = scratch_of_each(options.num_workers);
  supervision.config.execution.num_workers = options.num_workers;
  supervision.config.execution.batch_deadline = options.batch_deadline;
  supervision.config.execution.start_deadline = options.start_deadline;
  supervision.cores = plan_cores(query_cores(static_cast<int>(options.num_workers))).workers;
  supervision.plugins = options.plugins;
  supervision.batch_deadline = options.batch_deadline;
  supervision.start_deadline = options.start_deadline;
  supervision.max_restarts = ExecutionOptions{}.max_worker_restarts;
  supervision.answers_doorbell = false;
  supervision.find_job = options.find_job;
  supervision.on_death = [this](const WorkerDeath& death) { note_death(death); };
  supervisor_ = std::make_unique<Supervisor>(host_, std::move(supervision));
}

SamplingPool::~SamplingPool() {
  supervisor_.reset();
  host_->close();
}

void SamplingPool::wait_until_ready() { supervisor_->wait_until_ready(); }

// ---- the supervisor's thread

/// Whose batch it was pays for a death, and nobody else: a worker fills one batch at a time.
void SamplingPool::note_death(const WorkerDeath& death) {
  std::vector<std::uint32_t> refused;
  {
    const MutexLock lock(host_->mutex);
    for (const PlannedBatch& batch : death.claims) {
      if (++deaths_[batch.job] <= options_.max_worker_deaths) continue;
      abandon(plan_->refuse(batch.job));
      deaths_.erase(batch.job);
      refused.push_back(batch.job);
    }
  }
  if (options_.on_death) options_.on_death(death);
  for (std::uint32_t job : refused) {
    if (!options_.on_refused) continue;
    options_.on_refused(
        job,
        Error(ErrorCode::kPeerDied,
              fmt::format("the job is refused: {} sampling workers in a row died of its batches, the last "
                          "one so: {}",
                          options_.max_worker_deaths + 1, death.cause)));
  }
}

void SamplingPool::abandon(std::span<const std::uint64_t> sequences) {
  for (std::uint64_t sequence : sequences) host_->pool().abandon(sequence);
}

// ---- the event loop's thread

void SamplingPool::join(std::uint64_t client) {
  const MutexLock lock(host_->mutex);
  plan_->join(client);
}

void SamplingPool::leave(std::uint64_t client) {
  news_ = true;
  const MutexLock lock(host_->mutex);
  abandon(plan_->leave(client));
}

void SamplingPool::ask(std::uint64_t client, std::uint64_t request, const BatchRequest& batch) {
  news_ = true;
  const MutexLock lock(host_->mutex);
  plan_->push(client, request, batch);
}

void SamplingPool::withdraw(std::uint64_t client, std::uint64_t request) {
  news_ = true;
  const MutexLock lock(host_->mutex);
  if (const std::optional<std::uint64_t> sequence = plan_->withdraw(client, request))
    host_->pool().abandon(*sequence);
}

void SamplingPool::forget(std::uint32_t job) {
  const MutexLock lock(host_->mutex);
  plan_->forget(job);
  deaths_.erase(job);
}

std::vector<SamplingPool::Block> SamplingPool::settle() {
  news_ = false;
  seen_ = host_->view().control().loader_event.load();
  std::vector<Block> blocks;
  const MutexLock lock(host_->mutex);
  SlotPool& pool = host_->pool();
  for (SlotPool::Finished& finished : pool.take_all_ready()) {
    const SlotRecord& record = host_->view().slot(finished.slot);
    const SlotTimes& times = record.times;
    const auto nanoseconds = static_cast<double>(times.published - times.claimed);
    const std::optional<FairPlan::Whose> whose = plan_->made(
        {.sequence = finished.sequence, .seconds = nanoseconds * 1e-9, .bytes = finished.block.size()});
    if (whose) {
      if (!finished.error && !deaths_.empty()) deaths_.erase(whose->job);
      blocks.push_back({.client = whose->client,
                        .request = whose->request,
                        .job = whose->job,
                        .slot = finished.slot,
                        .worker = record.worker,
                        .bytes = finished.block,
                        .error = std::move(finished.error),
                        .sampling = times.sampled - times.claimed,
                        .gathering = times.gathered - times.sampled});
    }
    if (!whose || blocks.back().bytes.empty()) pool.release(finished.slot);
  }
  host_->pump();
  expects_soon_ = plan_->expects_soon();
  return blocks;
}

bool SamplingPool::stay_awake() const {
  if (!expects_soon_) return false;
  const SharedEvent& event = host_->view().control().loader_event;
  const std::int64_t begin = monotonic_now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (event.count.load(std::memory_order_acquire) != seen_) return true;
      __builtin_ia32_pause();
    }
  } while (monotonic_now() - begin < kStayAwake.count());
  return false;
}

void SamplingPool::free(const Block& block) {
  news_ = true;
  const MutexLock lock(host_->mutex);
  plan_->freed(block.client, block.bytes.size());
  host_->pool().release(block.slot);
}

bool SamplingPool::held_back(std::uint64_t client) const {
  const MutexLock lock(host_->mutex);
  return plan_->held_back(client);
}

std::optional<std::uint64_t> SamplingPool::lowest(std::uint64_t client) const {
  const MutexLock lock(host_->mutex);
  return plan_->lowest(client);
}

FairPlan::ClientLoad SamplingPool::load(std::uint64_t client) const {
  const MutexLock lock(host_->mutex);
  return plan_->load(client);
}

void SamplingPool::limit_blocks(std::size_t bytes) {
  const MutexLock lock(host_->mutex);
  host_->pool().limit(bytes);
}

SamplingPool::Load SamplingPool::load() const {
  const MutexLock lock(host_->mutex);
  const ChannelView& view = host_->view();
  Load load{.granted = host_->pool().granted(),
            .waiting = plan_->left(),
            .deaths = host_->deaths(),
            .remade = host_->batches_remade()};
  for (std::uint32_t slot = 0; slot < view.shape().num_slots; ++slot) {
    const SlotWord word = SlotWord::unpack(view.slot(slot).word.load());
    if (const auto state = static_cast<std::size_t>(word.state); state < load.slots.size())
      ++load.slots[state];
  }
  return load;
}

}  // namespace hopfeed
