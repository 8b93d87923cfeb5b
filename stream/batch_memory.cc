// See batch_memory.h.
#include "stream/batch_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace hopfeed {
namespace {

// With less, small batches would be refused on a machine that is full for the moment.
constexpr std::uint64_t kLeastShare = std::uint64_t{64} << 20;

}  // namespace

std::size_t bytes_of_worker(const BatchMemory& of, const AvailableMemory& available) {
  if (of.given != 0) return of.given;
  const std::uint64_t left = available.bytes - std::min<std::uint64_t>(available.bytes, of.channels);
  return std::max(kLeastShare, left / static_cast<std::uint64_t>(std::max<std::int64_t>(of.sharers, 1)));
}

std::shared_ptr<ScratchBudget> batch_budget(std::size_t bytes, WhoseOption whose) {
  return std::make_shared<ScratchBudget>(
      bytes,
      whose == WhoseOption::kServer
          ? fmt::format("lower {} or fanouts, or have the server started with more (--max-batch-memory)",
                        marked("batch_size"))
          : fmt::format("lower {} or fanouts, or raise {}", marked("batch_size"),
                        marked("max_batch_memory")));
}

}  // namespace hopfeed
