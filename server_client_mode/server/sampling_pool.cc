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
#include "stream/batch_memory.h"
#include "worker_mode/core_placement.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kFewestSlots = 64, kSlotsPerWorker = 8;
constexpr std::size_t kAddressSpace = std::size_t{1} << 45;  // for the slots; it costs nothing
constexpr std::size_t kReserveStep = std::size_t{8} << 20;   // of the loop's thread, some milliseconds
constexpr std::chrono::nanoseconds kStayAwake{50'000};
constexpr std::size_t kLeastScratch = std::size_t{64} << 20;
constexpr int kDeadlyBatches = 3;          // with so many a job is refused
constexpr double kSecondsOfADeath = 0.02;  // about what it takes to start a worker

std::array<std::int64_t, 3> batch_name(const PlannedBatch& batch) {
  return {batch.epoch, batch.first, batch.count};
}

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
  sizes.pool = {.channel_size = half, .allowance = half, .reserve_step = kReserveStep};
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
  supervision.config.batch_memory = bytes_of_worker({.given = options.max_batch_memory,
                                                     .sharers = options.num_workers,
                                                     .channels = options.max_memory + options.state_memory});
  supervision.config.execution.num_workers = options.num_workers;
  supervision.config.execution.gpu = options.gpu;
  supervision.config.execution.features = options.features;
  supervision.config.execution.partitions = options.partitions;
  supervision.config.execution.batch_deadline = options.batch_deadline;
  supervision.config.execution.start_deadline = options.start_deadline;
  supervision.cores = plan_cores(query_cores(static_cast<int>(options.num_workers))).workers;
  supervision.plugins = options.plugins;
  supervision.batch_deadline = options.batch_deadline;
  supervision.start_deadline = options.start_deadline;
  supervision.max_restarts = LocalExecution{}.max_worker_restarts;
  supervision.answers_doorbell = false;
  supervision.find_job = options.find_job;
  supervision.on_death = [this](const WorkerDeath& death) { return note_death(death); };
  supervisor_ = std::make_unique<Supervisor>(host_, std::move(supervision));
}

SamplingPool::~SamplingPool() {
  supervisor_.reset();
  host_->close();
}

void SamplingPool::wait_until_ready() { supervisor_->wait_until_ready(); }

// ---- the supervisor's thread

/// Whose batch it was pays for a death, and nobody else: a worker fills one batch at a time. Returns as
/// SupervisorOptions::on_death.
int SamplingPool::note_death(const WorkerDeath& death) {
  const int most = options_.max_worker_deaths, most_of_batch = std::max(1, most);
  std::vector<std::pair<std::uint32_t, int>> refused;  // and how many died of it
  int again = 0;
  {
    const MutexLock lock(host_->mutex);
    for (const PlannedBatch& batch : death.claims) {
      Deaths& deaths = deaths_[batch.job];
      const int of_batch = ++deaths.by_batch[batch_name(batch)];
      int of_job = 0;
      for (const auto& [name, times] : deaths.by_batch) of_job += times;
      if (++deaths.in_a_row > most || of_job >= kDeadlyBatches * most_of_batch) {
        refused.emplace_back(batch.job, of_job);
        abandon(plan_->refuse(batch.job));
        deaths_.erase(batch.job);
      } else if (of_batch >= most_of_batch) {
        give_up(batch, Error(ErrorCode::kPeerDied,
                             fmt::format(
                                 "{} sampling workers died of this batch (job {}, epoch {}, seeds {} to {}), "
                                 "and it is given up; the last one: {}",
                                 of_batch, batch.job, batch.epoch, batch.first, batch.first + batch.count - 1,
                                 death.cause)));
      } else {
        again = std::max(again, of_batch);
      }
    }
  }
  if (options_.on_death) options_.on_death(death);
  for (const auto& [job, deaths] : refused) {
    if (!options_.on_refused) continue;
    options_.on_refused(job, Error(ErrorCode::kPeerDied,
                                   fmt::format("the job is refused: {} sampling workers died of its batches, "
                                               "the last one so: {}",
                                               deaths, death.cause)));
  }
  return again;
}

/// Its client pays for the workers that have to be started.
void SamplingPool::give_up(const PlannedBatch& batch, const Error& cause) {
  const double seconds = kSecondsOfADeath * std::max(1, options_.max_worker_deaths);
  const std::optional<FairPlan::Whose> whose =
      plan_->made({.sequence = batch.sequence, .seconds = seconds, .bytes = 0});
  host_->pool().abandon(batch.sequence);
  if (!whose) return;
  Block none;
  none.client = whose->client;
  none.request = whose->request;
  none.job = whose->job;
  none.error = cause;
  given_up_.push_back(std::move(none));
}

/// What others of its job have died of is not forgotten for it.
void SamplingPool::note_made(std::uint32_t job, std::uint32_t slot) {
  const auto found = deaths_.find(job);
  if (found == deaths_.end()) return;
  found->second.in_a_row = 0;
  found->second.by_batch.erase(batch_name(host_->pool().batch_of(slot)));
  if (found->second.by_batch.empty()) deaths_.erase(found);
}

void SamplingPool::abandon(std::span<const std::uint64_t> sequences) {
  for (std::uint64_t sequence : sequences) host_->pool().abandon(sequence);
}

// ---- the event loop's thread

void SamplingPool::join(std::uint64_t client, const std::string& who) {
  const MutexLock lock(host_->mutex);
  plan_->join(client, who);
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
  plan_->withdraw(client, request);
}

void SamplingPool::forget(std::uint32_t job) {
  const MutexLock lock(host_->mutex);
  plan_->forget(job);
  deaths_.erase(job);
}

std::vector<SamplingPool::Block> SamplingPool::settle() {
  news_ = false;
  seen_ = host_->view().control().loader_event.load();
  const MutexLock lock(host_->mutex);
  std::vector<Block> blocks = std::exchange(given_up_, {});
  SlotPool& pool = host_->pool();
  for (SlotPool::Finished& finished : pool.take_all_ready()) {
    const SlotRecord& record = host_->view().slot(finished.slot);
    const SlotTimes& times = record.times;
    const auto nanoseconds = static_cast<double>(times.published - times.claimed);
    const std::optional<FairPlan::Whose> whose = plan_->made(
        {.sequence = finished.sequence, .seconds = nanoseconds * 1e-9, .bytes = finished.block.size()});
    if (whose) {
      if (!finished.error) note_made(whose->job, finished.slot);
      blocks.push_back({.client = whose->client,
                        .request = whose->request,
                        .job = whose->job,
                        .slot = finished.slot,
                        .worker = record.worker,
                        .bytes = finished.block,
                        .error = std::move(finished.error),
                        .sampling = times.sampled - times.claimed,
                        .gathering = times.gathered - times.writing});
    }
    if (!whose || blocks.back().bytes.empty()) pool.release(finished.slot);
  }
  host_->pump();
  expects_soon_ = plan_->expects_soon();
  return blocks;
}

bool SamplingPool::stay_awake() const {
  return expects_soon_ && host_->view().control().loader_event.moves_within(seen_, kStayAwake);
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
