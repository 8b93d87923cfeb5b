// See tensor_pool.h.
#include "trainer/tensor_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/scratch.h"

namespace hopfeed {
namespace {

constexpr std::size_t kSmallBytes = std::size_t{1} << 20;

using Block = ScratchArray<std::byte>;

class Pool {
 public:
  /// The smallest free block that is large enough, or a new one with room for a batch that is a little
  /// larger.
  Block take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block block;
    if (const auto fit = free_.lower_bound(bytes); fit != free_.end()) {
      block = std::move(fit->second);
      free_.erase(fit);
    } else {
      const std::size_t wanted = (bytes + bytes / 8) / kHugePageBytes * kHugePageBytes + kHugePageBytes;
      make_room(wanted);
      block.reserve(wanted);
      total_ += block.bytes();
    }
    used_ += block.bytes();
    peak_ = std::max(peak_, used_);
    return block;
  }

  void give_back(Block block) {
    const std::lock_guard lock(mutex_);
    used_ -= block.bytes();
    const std::size_t bytes = block.bytes();
    free_.emplace_hint(free_.lower_bound(bytes), bytes,
                       std::move(block));  // the first of its size to go again
  }

  void release() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    total_ = peak_ = used_;
  }

  TensorPoolStats stats() {
    const std::lock_guard lock(mutex_);
    return {.used_bytes = used_, .free_bytes = total_ - used_, .peak_bytes = peak_};
  }

 private:
  /// Unmaps free blocks, the smallest first (a large one can stand in for a small one), until `bytes` more
  /// are within the bound.
  void make_room(std::size_t bytes) {
    const std::size_t bound = std::max(peak_, used_ + bytes) * 3 / 2;
    while (!free_.empty() && total_ + bytes > bound) {
      total_ -= free_.begin()->first;
      free_.erase(free_.begin());
    }
  }

  std::mutex mutex_;
  std::multimap<std::size_t, Block> free_;  // by their bytes
  std::size_t total_ = 0, used_ = 0, peak_ = 0;
};

/// Never destroyed: tensors may outlive every static object.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

}  // namespace

torch::Tensor pooled_tensor(c10::IntArrayRef shape, torch::Dtype dtype) {
  const std::size_t bytes =
      static_cast<std::size_t>(c10::multiply_integers(shape)) * torch::elementSize(dtype);
  if (bytes < kSmallBytes) return torch::empty(shape, dtype);
  const auto block = std::make_shared<Block>(pool().take(bytes));
  return torch::from_blob(
      block->data(), shape, [block](void*) { pool().give_back(std::move(*block)); },
      torch::TensorOptions(dtype));
}

TensorPoolStats tensor_pool_stats() { return pool().stats(); }
void release_tensor_pool() { pool().release(); }

}  // namespace hopfeed
