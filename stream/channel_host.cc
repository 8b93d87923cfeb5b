// See channel_host.h.
#include "stream/channel_host.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "channel/futex.h"
#include "core/base/error.h"

namespace hopfeed {

ChannelHost::ChannelHost(const ChannelPlan& sizes, const MakeChannelMemory& make)
    : sizes_(sizes),
      memory_(make(ChannelView::bytes_needed(sizes.shape))),
      view_(ChannelView::format(*memory_, sizes.shape)),
      pool_(*memory_, view_, sizes.pool, {.fillers = fillers_bell_.fd(), .planner = doorbell_.fd()}) {}

// ---- with the lock

void ChannelHost::plan_from(std::shared_ptr<BatchPlan> plan) {
  pool_.abandon();
  plan_ = std::move(plan);
}

void ChannelHost::pump() {
  if (closed_) return pool_.punch_all_but_held();
  pool_.sweep();
  try {
    pool_.serve_grants();
  } catch (const Error& error) {
    fail_locked(Error(error.code(), fmt::format("{}; lower {} or num_slots, or free memory", error.message(),
                                                marked("channel_size"))));
  }
  if (!plan_) return;
  pool_.plan_from(*plan_);
  tell_unplanned(plan_->left());
}

/// Workers that wait for a slot go on counting that as a wait only while there is something left to plan.
void ChannelHost::tell_unplanned(std::int64_t batches) {
  ControlBlock& control = view_.control();
  if (control.loader.unplanned.exchange(batches) > 0 && batches == 0) control.work_event.bump();
}

void ChannelHost::fail_locked(const Error& error) {
  if (!failure_) failure_ = error;
  view_.control().loader_event.bump(Wake::kAll, doorbell_.fd());
}

// ---- without it

void ChannelHost::service() {
  const MutexLock lock(mutex);
  pump();
}

void ChannelHost::used_on(std::uint32_t slot, GpuStream stream) noexcept {
  if (!in_own_process()) return;  // a fork has neither the GPU nor, maybe, the locks
  try {
    memory_->used_on(view_.slot_offset(slot), stream);
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception& error) {
    fail(Error(ErrorCode::kNoSpace, std::string("a mark in a GPU's stream: ") + error.what()));
  }
}

void ChannelHost::release(std::uint32_t slot) noexcept {
  if (!in_own_process()) return;
  try {
    const MutexLock lock(mutex);
    pool_.release(slot);
    pump();
  } catch (...) {
    // whoever keeps the channel pumps again, and who asks for a batch meets the error itself
  }
}

void ChannelHost::reclaim(std::uint32_t incarnation) {
  const MutexLock lock(mutex);
  batches_remade_ += pool_.reclaim(incarnation);
  pump();
}

void ChannelHost::note_death() {
  const MutexLock lock(mutex);
  ++deaths_;
}

void ChannelHost::fail(const Error& error) {
  const MutexLock lock(mutex);
  fail_locked(error);
}

std::optional<Error> ChannelHost::failure() const {
  const MutexLock lock(mutex);
  return failure_;
}

std::vector<SlotPool::Filling> ChannelHost::filling() const {
  const MutexLock lock(mutex);
  return pool_.filling();
}

bool ChannelHost::slots_leaving() const {
  const MutexLock lock(mutex);
  return pool_.num_leaving() > 0;
}

void ChannelHost::terminate() {
  view_.control().terminate.store(1);
  view_.control().work_event.bump(Wake::kAll, fillers_bell_.fd());
  for (std::uint32_t slot = 0; slot < view_.shape().num_slots; ++slot)
    futex_bump(view_.slot(slot).grant_event);
}

void ChannelHost::close() {
  const MutexLock lock(mutex);
  closed_ = true;
  plan_.reset();
  pool_.punch_all_but_held();
}

}  // namespace hopfeed
