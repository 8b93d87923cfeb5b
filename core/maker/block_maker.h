// A BlockMaker fills the place of a batch block, by two calls a batch: BatchMaker on the CPU, and what makes
// blocks in a GPU's memory (gpu/batches/block_maker_on.h).
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "core/base/scratch_budget.h"
#include "core/batch/batch_key.h"
#include "core/batch/gpu_use.h"
#include "core/batch/held_share.h"
#include "core/batch/tier_counts.h"

namespace hopfeed {

class BlockMaker {
 public:
  virtual ~BlockMaker() = default;
  BlockMaker() = default;
  BlockMaker(const BlockMaker&) = delete;
  BlockMaker& operator=(const BlockMaker&) = delete;

  /// From now on its scratch is of that budget until the maker's end, what it has by now included. Throws
  /// kNoSpace, and so does sample() where the budget has no more.
  virtual void bound_scratch(std::shared_ptr<ScratchBudget> budget) = 0;
  /// Samples into scratch; returns the bytes of the block. `held` says which rows the consumer has; where
  /// leaving them out makes the block smaller it is a packed one (core/batch/packed_block.h). Throws kInvalid
  /// for a key outside the list, kCorrupt naming file and row where the graph is damaged.
  virtual std::size_t sample(const BatchKey& key, HeldShare held = {}) = 0;
  /// Writes the block of the last `sample`, every byte of it (gaps are zeroed): ids, then the gathered
  /// attributes. `nearly_done` is called once where more than kLastBytes are gathered, when that many are
  /// left.
  static constexpr std::size_t kLastBytes = std::size_t{1} << 20;
  virtual void write(std::span<std::byte> block, const std::function<void()>& nearly_done = {}) = 0;
  /// Gives up the batch of the last `sample`: lets go of what is kept for it. Scratch stays.
  virtual void drop() = 0;
  /// Returns the block that was written last, for the host to look through: a copy where it lies elsewhere.
  /// Good until the next call.
  virtual std::span<const std::byte> written(std::span<const std::byte> block) { return block; }
  /// Returns the rows of its batches by where they were read.
  virtual TierCounts tier_counts() const = 0;
  /// Returns what a GPU did so far; nothing in graph mode cpu.
  virtual GpuUse gpu_use() const { return {}; }
};

}  // namespace hopfeed
