// What the scratch of one worker may take: ExecutionOptions::max_batch_memory, or by default its share of
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
  std::size_t channel = 0;   // bytes that their batches in shared memory may take beside
  bool of_server = false;    // whose option it is, in errors
};

/// Called when the worker starts.
std::shared_ptr<ScratchBudget> batch_memory(const BatchMemory& of,
                                            const AvailableMemory& available = available_memory());

}  // namespace hopfeed
