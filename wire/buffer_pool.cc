// See buffer_pool.h.
#include "wire/buffer_pool.h"

#include <vector>

#include "core/base/thread_annotations.h"

namespace hopfeed::wire {
namespace {

constexpr std::size_t kKept = 32;  // 8 MiB; more than that is given back to the operating system

struct Pool {
  Mutex mutex;
  std::vector<std::unique_ptr<std::byte[]>> free GUARDED_BY(mutex);
};

Pool& pool() {
  static Pool* const pool = new Pool;  // never freed: buffers may come back while the process ends
  return *pool;
}

}  // namespace

PooledBuffer PooledBuffer::borrow() {
  PooledBuffer buffer;
  {
    const MutexLock lock(pool().mutex);
    if (!pool().free.empty()) {
      buffer.bytes_ = std::move(pool().free.back());
      pool().free.pop_back();
    }
  }
  if (!buffer.bytes_) buffer.bytes_ = std::make_unique_for_overwrite<std::byte[]>(kPooledBytes);
  return buffer;
}

void PooledBuffer::give_back() {
  if (!bytes_) return;
  {
    const MutexLock lock(pool().mutex);
    if (pool().free.size() < kKept) pool().free.push_back(std::move(bytes_));
  }
  bytes_.reset();
}

}  // namespace hopfeed::wire
