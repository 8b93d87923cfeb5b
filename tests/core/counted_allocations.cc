// See counted_allocations.h.
#include "tests/core/counted_allocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> so_far{0}, last{kNever};

std::atomic<pid_t> alone{0};  // the thread that need not wait; 0: none has to
std::atomic<int> waiting_now{0};

bool granted() {
  if (alone != 0 && alone != gettid()) {
    ++waiting_now;
    while (alone != 0) usleep(1'000);
    --waiting_now;
  }
  return ++so_far <= last;
}

void* counted(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (granted())
    if (void* memory = std::aligned_alloc(alignment, rounded ? rounded : alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// All of them, so that every allocation of the process is seen.
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes,
                   const std::nothrow_t&) noexcept {  // std::stable_sort asks for its buffer like this
  return granted() ? std::malloc(bytes ? bytes : 1) : nullptr;
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#if !defined(__SANITIZE_THREAD__)  // which maps memory itself, before anything of this program may run
// In place of the C library's.
extern "C" void* mmap(void* at, std::size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  if (granted())  // by number, since the C library's own is hidden behind this
    return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  errno = ENOMEM;
  return MAP_FAILED;
}
#endif

namespace hopfeed::testing {

std::int64_t allocations() { return so_far; }

MemoryEnds::MemoryEnds(std::int64_t after) { last = so_far + after; }
MemoryEnds::~MemoryEnds() { last = kNever; }

OthersWaitForMemory::OthersWaitForMemory() { alone = gettid(); }
OthersWaitForMemory::~OthersWaitForMemory() { alone = 0; }
int OthersWaitForMemory::waiting() { return waiting_now; }

}  // namespace hopfeed::testing
