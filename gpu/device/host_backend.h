// These are twins of a GPU on hosts: the same kernels run there, so that every machine tests them.
// SerialBackend runs the items of a launch one after the other in an order that a test chooses; what a batch
// holds must not hang on it. ThreadedBackend runs them on threads, for ThreadSanitizer.
//
// A backend is, for hop_engine_on.h, an ordered stream of work:
//   allocate, release   memory of the device, or pinned memory of the host. Its contents are unknown.
//                       release() waits for what may still use it
//   place_graph         an array of the host as the device reads it: in place, or a copy of it
//   copy, fill          from anywhere to anywhere, behind what was asked for before; of memory of the caller
//                       only by the time of wait()
//   copy_rows           the same of rows of one width, which may lie farther apart on either side
//   launch(n, kernel)   kernel(i) for each i below n, in any order
//   scan(n, items, sums)   sums[i] = the sum of items.number(j) for j < i, for each i below n. number(i) is
//                       asked once, and may read what lies at sums[i]
//   sort_by             keys in rising order, each with its value, into other arrays; keys are not negative
//                       and have so many bits
//   wait                all of the above is done and can be read by the host
//   begin_recording, end_recording, replay   what is asked for between the first two is not done then, but by
//                       each replay(): with the same places and numbers, and with what lies there by then.
//                       Nothing may be allocated meanwhile
//   generation          grows with each allocation: what was recorded before may have the wrong places
//   Scope               while one lives, the thread that made it may launch, copy and fill
// and for slot_memory_on.h:
//   reserve_range, free_range   addresses of the device without memory
//   back, unback        memory behind some of them, in whole units of backing_unit()
//   mark                what a stream of somebody's was asked for so far: come_after() has this stream's work
//                       wait for it, await() the host; then drop() it
//   device              its number
// and for shared_slots_on.h:
//   share_range         memory at addresses of the device that other processes import by the descriptor
//   import_range        the same memory in the process of a worker, by its number
//   free_shared         either's end
//   ended               nothing runs any more that the dead worker of that number asked for
//   done                whether await(mark) would not wait
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/memory_file.h"
#include "core/base/owned_fd.h"
#include "core/batch/gpu_stream.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/memory/device_array.h"
#include "gpu/memory/setup_times.h"
#include "gpu/memory/shared_range.h"

namespace hopfeed::gpu {

/// A HostStream is a stream of a trainer on hosts: tests see when its work is waited for, and say how long it
/// takes where it is asked whether it is done.
struct HostStream {
  mutable std::atomic<int> finished = 0;
  std::atomic<bool> busy = false;
  void finish() const { ++finished; }
};

/// HostMemory is the memory of both twins: plain, of exactly the size that was asked for, filled with
/// rubbish.
class HostMemory {
 public:
  struct Scope {
    explicit Scope(const HostMemory& /*backend*/) {}
  };

  HostMemory() = default;
  ~HostMemory() {
    for (void* copy : graph_) std::free(copy);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void* allocate(std::size_t bytes, Where /*where*/) {
    if (recording_) throw std::logic_error("memory is asked for while work is recorded");
    ++generation_;
    void* memory = FAILPOINT("device.allocate") ? nullptr : std::malloc(bytes);
    if (memory == nullptr)
      throw Error(ErrorCode::kNoSpace, "the device has no " + std::to_string(bytes) + " bytes left; lower " +
                                           marked("batch_size") + " or the fanouts");
    std::memset(memory, 0xA5, bytes);
    return memory;
  }
  void release(void* memory, Where /*where*/) { std::free(memory); }
  const void* place_graph(const void* array, std::size_t bytes, GraphPlace place) {
    if (place == GraphPlace::kHost || bytes == 0) return array;
    const SetupTimer timer(Setup::kCopying);
    void* copy = allocate(bytes, Where::kDevice);
    graph_.push_back(copy);
    std::memcpy(copy, array, bytes);
    return copy;
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) run([=] { std::memcpy(to, from, bytes); });
  }
  void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                 std::size_t row_bytes, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i)
      copy(static_cast<char*>(to) + i * to_stride, static_cast<const char*>(from) + i * from_stride,
           row_bytes);
  }
  void fill(void* at, int byte, std::size_t bytes) {
    if (bytes > 0) run([=] { std::memset(at, byte, bytes); });
  }
  template <class Items>
  void scan(std::uint64_t n, const Items& items, std::uint64_t* sums) {
    run([=] {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t number = items.number(i);
        sums[i] = sum;
        sum += number;
      }
    });
  }
  void sort_by(const std::int64_t* keys, std::int64_t* sorted_keys, const std::uint32_t* values,
               std::uint32_t* sorted_values, std::uint64_t n, int key_bits) {
    run([=] {
      std::vector<std::uint64_t> order(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        order[i] = i;
        if (keys[i] < 0 || keys[i] >> key_bits != 0)
          throw std::logic_error("a key has more bits than were told");
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint64_t a, std::uint64_t b) { return keys[a] < keys[b]; });
      for (std::uint64_t i = 0; i < n; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
  void wait() {
    lost_ |= FAILPOINT("device.lost");
    if (lost_) throw BrokenProcess(ErrorCode::kIo, "the device is lost");
    ++waits_;
  }
  static std::size_t backing_unit() { return 4096; }
  std::byte* reserve_range(std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(at);
  }
  void free_range(std::byte* at, std::size_t bytes) { munmap(at, bytes); }
  void back(std::byte* at, std::size_t bytes) {
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(at, 0xA5, bytes);
  }
  /// Takes the memory away: who still reads it crashes.
  void unback(std::byte* at, std::size_t bytes) {
    madvise(at, bytes, MADV_DONTNEED);
    mprotect(at, bytes, PROT_NONE);
  }
  /// A Mark is a stream, as HostStream says.
  using Mark = const HostStream*;
  static Mark mark(GpuStream stream) { return static_cast<const HostStream*>(stream.handle); }
  static void come_after(Mark mark) { mark->finish(); }
  static void await(Mark mark) { mark->finish(); }
  static void drop(Mark /*mark*/) {}
  static int device() { return 0; }

  // Shared memory of such a device is a memfd. A process that works on it has locked the byte of its number
  // for as long as it, or what it has forked as its kernels, has the file open.
  static SharedRange share_range(std::size_t bytes) {
    constexpr const char* what = "the device's memory cannot be made";
    if (FAILPOINT("device.share"))
      throw Error(ErrorCode::kNoSpace, "the device has no " + std::to_string(bytes) +
                                           " bytes left for slots; lower num_slots, " + marked("batch_size") +
                                           " or fanouts");
    OwnedFd fd = make_memory_file({.name = "hopfeed-device", .what = what});
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw_errno(what, errno);
    return {.at = map_shared(fd.get(), bytes), .fd = std::move(fd)};
  }
  std::byte* import_range(int fd, std::size_t bytes, std::uint32_t importer) {
    constexpr const char* what = "the device's memory cannot be imported";
    if (FAILPOINT("device.import")) throw_errno(what, EINVAL);
    imported_ = OwnedFd(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC), what);
    struct flock lock = byte_of(importer);
    if (fcntl(imported_.get(), F_OFD_SETLK, &lock) != 0) throw_errno(what, errno);
    return map_shared(imported_.get(), bytes);
  }
  static void free_shared(std::byte* at, std::size_t bytes) { munmap(at, bytes); }
  static bool ended(int fd, std::uint32_t importer) {
    struct flock lock = byte_of(importer);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK;
  }
  static bool done(Mark mark) { return !mark->busy; }
  std::uint64_t waits() const { return waits_; }

  using Recording = std::vector<std::function<void()>>;
  void begin_recording() { recording_.emplace(); }
  Recording end_recording() {
    Recording recorded = std::move(*recording_);
    recording_.reset();
    return recorded;
  }
  static void replay(const Recording& recording) {
    for (const std::function<void()>& work : recording) work();
  }
  std::uint64_t generation() const { return generation_; }

 protected:
  /// Does the work now, or where it is recorded with each replay.
  template <class Work>
  void run(Work work) {
    if (recording_)
      recording_->push_back(std::move(work));
    else
      work();
  }

 private:
  static std::byte* map_shared(int fd, std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) throw_errno("the device's memory cannot be mapped", errno);
    return static_cast<std::byte*>(at);
  }
  static struct flock byte_of(std::uint32_t importer) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = importer;
    lock.l_len = 1;
    return lock;
  }

  std::optional<Recording> recording_;
  std::uint64_t generation_ = 0;
  std::vector<void*> graph_;
  std::uint64_t waits_ = 0;
  bool lost_ = false;
  OwnedFd imported_;
};

/// ItemOrder orders the items of a launch. kShuffled takes blocks at random, and in each the threads at
/// random.
enum class ItemOrder { kForward, kBackward, kShuffled };

class SerialBackend : public HostMemory {
 public:
  struct Options {
    ItemOrder order = ItemOrder::kForward;
    std::uint64_t seed = 1;
  };
  explicit SerialBackend(const Options& options) : order_(options.order), random_(options.seed) {}

  template <class Kernel>
  void launch(std::uint64_t n, const Kernel& kernel) {
    FAILPOINT("device.launch");
    run([this, n, kernel] {
      if (order_ == ItemOrder::kShuffled) return launch_shuffled(n, kernel);
      for (std::uint64_t i = 0; i < n; ++i) kernel(order_ == ItemOrder::kForward ? i : n - 1 - i);
    });
  }

 private:
  static constexpr std::uint64_t kBlock = 32;

  template <class Kernel>
  void launch_shuffled(std::uint64_t n, const Kernel& kernel) {
    blocks_.resize((n + kBlock - 1) / kBlock);
    for (std::uint64_t b = 0; b < blocks_.size(); ++b) blocks_[b] = b;
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    for (const std::uint64_t block : blocks_) {
      std::uint64_t threads[kBlock];
      for (std::uint64_t t = 0; t < kBlock; ++t) threads[t] = t;
      std::shuffle(threads, threads + kBlock, random_);
      for (const std::uint64_t thread : threads)
        if (block * kBlock + thread < n) kernel(block * kBlock + thread);
    }
  }

  ItemOrder order_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> blocks_;
};

class ThreadedBackend : public HostMemory {
 public:
  struct Options {
    int threads = 4;
  };
  explicit ThreadedBackend(const Options& options) : threads_(options.threads) {}

  /// Runs on threads: thread t takes the items t, t + threads, ...: neighbours run side by side, as on a
  /// device.
  template <class Kernel>
  void launch(std::uint64_t n, const Kernel& kernel) {
    run([this, n, kernel] { launch_now(n, kernel); });
  }

 private:
  template <class Kernel>
  void launch_now(std::uint64_t n, const Kernel& kernel) {
    std::vector<std::thread> threads;
    const auto step = static_cast<std::uint64_t>(threads_);
    const auto items_of = [&kernel, n, step](std::uint64_t t) {
      for (std::uint64_t i = t; i < n; i += step) kernel(i);
    };
    std::uint64_t t = 0;
    try {
      for (; t < step && t < n; ++t) threads.emplace_back(items_of, t);
    } catch (const std::system_error&) {  // no more may be started
    }
    for (; t < step && t < n; ++t) items_of(t);
    for (std::thread& thread : threads) thread.join();
  }

  int threads_;
};

}  // namespace hopfeed::gpu
