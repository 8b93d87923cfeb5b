// See batch_memory.h.
#include "worker_mode/batch_memory.h"

#include <algorithm>

namespace hopfeed {
namespace {

// With less, small batches would be refused on a machine that is full for the moment.
constexpr std::uint64_t kLeastShare = std::uint64_t{64} << 20;

std::uint64_t share_of(const BatchMemory& of, std::uint64_t free) {
  const std::uint64_t left = free - std::min<std::uint64_t>(free, of.channel);
  return std::max(kLeastShare, left / static_cast<std::uint64_t>(std::max<std::int64_t>(of.sharers, 1)));
}

}  // namespace

std::shared_ptr<ScratchBudget> batch_memory(const BatchMemory& of, const AvailableMemory& available) {
  return std::make_shared<ScratchBudget>(
      of.given != 0 ? of.given : share_of(of, available.bytes),
      of.of_server ? "lower batch_size or fanouts, or have the server started with more (--max-batch-memory)"
                   : "lower batch_size or fanouts, or raise max_batch_memory");
}

}  // namespace hopfeed
