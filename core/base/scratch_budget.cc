// See scratch_budget.h.
#include "core/base/scratch_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_limits.h"

namespace hopfeed {
namespace {

thread_local ScratchBudget::Share* share_of_thread = nullptr;

}  // namespace

bool ScratchBudget::Share::fits(std::size_t more) const {
  const std::uint64_t taken = budget_->taken();
  return taken <= budget_->limit_ && more <= budget_->limit_ - taken;
}

void ScratchBudget::Share::take(std::size_t more) {
  // Another maker of the worker may take at the same time.
  const std::uint64_t before = budget_->taken_.fetch_add(more, std::memory_order_relaxed);
  bytes_ += more;
  if (before <= budget_->limit_ && more <= budget_->limit_ - before) return;
  const std::size_t needed = bytes_;
  give(more);
  throw Error(ErrorCode::kNoSpace,
              fmt::format("a batch needs {} of scratch memory or more, and {} is the most{}; {}",
                          format_bytes(needed), format_bytes(budget_->limit_),
                          before + more - needed == 0
                              ? ""
                              : ", of which other batches have " + format_bytes(before + more - needed),
                          budget_->knobs_));
}

void ScratchBudget::Share::give(std::size_t less) noexcept {
  bytes_ -= less;
  budget_->taken_.fetch_sub(less, std::memory_order_relaxed);
}

ScratchBudget::Scope::Scope(Share* share) : before_(std::exchange(share_of_thread, share)) {}
ScratchBudget::Scope::~Scope() { share_of_thread = before_; }

ScratchBudget::Share* ScratchBudget::share() { return share_of_thread; }

void ScratchBudget::cover(std::size_t bytes, std::size_t& taken) {
  if (share_of_thread == nullptr || bytes <= taken) return;
  share_of_thread->take(bytes - taken);
  taken = bytes;
}

}  // namespace hopfeed
