// What the scratch of one worker may take: LocalExecution::max_batch_memory, or by default its share of
// what is free. Under a memory cgroup more would be SIGKILL and no error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/memory_limits.h"
#include "core/base/scratch_budget.h"

namespace hopfeed {

struct BatchMemory {
  std::size_t given = 0;     // bytes; 0: the share
  std::int64_t sharers = 1;  // workers, of all ranks of this machine
  std::size_t channels = 0;  // bytes that batches in shared memory may take beside, of all of them
};

/// Returns the bytes of each worker. It is called once, before any batch is made: a worker that is started
/// again gets what the one before it had, however full the channels are by then.
std::size_t bytes_of_worker(const BatchMemory& of, const AvailableMemory& available = available_memory());

enum class WhoseOption { kLoader, kServer };  // in errors
std::shared_ptr<ScratchBudget> batch_budget(std::size_t bytes, WhoseOption whose = WhoseOption::kLoader);

}  // namespace hopfeed
