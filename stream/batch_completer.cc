// See batch_completer.h.
#include "stream/batch_completer.h"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/batch/aligned_block.h"
#include "core/batch/packed_block.h"

namespace hopfeed {

/// Blocks that no batch uses; never more than were in use at once. Batches give them back as they end, where
/// nothing may throw: take() has made room for that. In a fork some other thread of the parent may have held
/// the lock, and nobody would ever let go of it: there a batch frees its block.
class BatchCompleter::Pool {
 public:
  AlignedBlock take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      free_.reserve(made_ + 1);
      ++made_;
      return {};
    }
    AlignedBlock block = std::move(free_.back());
    free_.pop_back();
    return block;
  }
  void give_back(AlignedBlock block) {
    if (getpid() != process_) return;
    const MutexLock lock(mutex_);
    free_.push_back(std::move(block));
  }

 private:
  const pid_t process_ = getpid();
  Mutex mutex_;
  std::vector<AlignedBlock> free_ GUARDED_BY(mutex_);
  std::size_t made_ GUARDED_BY(mutex_) = 0;
};

namespace {

/// A block of the pool; `Pool` is private to the completer.
template <class Pool>
class CompletedBlock final : public BatchOwner {
 public:
  CompletedBlock(std::shared_ptr<Pool> pool, AlignedBlock block, std::shared_ptr<const BatchOwner> lease)
      : pool_(std::move(pool)), block_(std::move(block)), lease_(std::move(lease)) {}
  ~CompletedBlock() override { pool_->give_back(std::move(block_)); }
  BatchTimes times() const override { return lease_->times(); }

 private:
  const std::shared_ptr<Pool> pool_;
  AlignedBlock block_;
  const std::shared_ptr<const BatchOwner> lease_;
};

}  // namespace

BatchCompleter::BatchCompleter(std::shared_ptr<const HeldRows> rows)
    : rows_(std::move(rows)), pool_(std::make_shared<Pool>()) {}

Batch BatchCompleter::complete(std::span<const std::byte> block,
                               const std::shared_ptr<const BatchOwner>& lease) {
  const bool packed = is_packed(block);
  const BatchView view(block, packed ? BatchView::Form::kPacked : BatchView::Form::kWhole);
  std::optional<Batch> batch;
  if (packed) {
    AlignedBlock whole = pool_->take();
    rows_->complete(view, whole.resize(rows_->completed_bytes(view)));
    const BatchView completed(whole.bytes());
    batch.emplace(completed, std::make_shared<const CompletedBlock<Pool>>(pool_, std::move(whole), lease));
  } else {
    batch.emplace(view, lease);
  }
  const HeldRows::Counts counts = rows_->count(view);  // nothing throws any more: once for each batch
  rows_seen_ += counts.rows;
  held_seen_ += counts.held;
  return *std::move(batch);
}

}  // namespace hopfeed
