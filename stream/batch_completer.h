// A BatchCompleter makes batches that came packed whole with the rows that this process holds
// (cache/held_rows.h): trainers see the same block whatever was left out on the way.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "cache/held_rows.h"
#include "core/batch/batch.h"

namespace hopfeed {

class BatchCompleter {
 public:
  explicit BatchCompleter(std::shared_ptr<const HeldRows> rows);

  /// Returns the whole batch of a block, in memory of its own where the block is packed; `lease`, which keeps
  /// the block, is kept as long as the batch. Blocks are used again. Throws std::bad_alloc, and then nothing
  /// has happened: the same can be asked again. One thread at a time; batches may end in any, in a fork too,
  /// and may outlive this.
  Batch complete(std::span<const std::byte> block, const std::shared_ptr<const BatchOwner>& lease);

  // ---- any thread
  /// Counts over all batches so far: rows of nodes that have attributes, and those of them that were held.
  HeldRows::Counts counts() const { return {.rows = rows_seen_.load(), .held = held_seen_.load()}; }
  std::size_t bytes() const { return rows_->bytes(); }

 private:
  class Pool;
  const std::shared_ptr<const HeldRows> rows_;
  const std::shared_ptr<Pool> pool_;
  std::atomic<std::int64_t> rows_seen_{0}, held_seen_{0};
};

}  // namespace hopfeed
