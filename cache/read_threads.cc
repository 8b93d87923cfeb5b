// See read_threads.h.
#include "cache/read_threads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {
namespace {

constexpr int kMostThreads = 16;

/// What reader and threads share. Threads own it too, so that one that never comes back from the kernel finds
/// it there.
struct Shared {
  Shared(std::shared_ptr<ReadBuffers> memory, std::span<const int> descriptors)
      : buffers(std::move(memory)), files(descriptors.begin(), descriptors.end()) {
    const auto depth = static_cast<std::size_t>(buffers->options().depth);
    queued.reserve(depth);
    done.reserve(depth);
  }
  const std::shared_ptr<ReadBuffers> buffers;
  const std::vector<int> files;
  Mutex mutex;
  std::condition_variable_any work, ended;
  std::vector<FileReader::Read> queued GUARDED_BY(mutex);  // the first asked for is the first
  std::vector<FileReader::Done> done GUARDED_BY(mutex);
  bool stop GUARDED_BY(mutex) = false;
  int running GUARDED_BY(mutex) = 0;  // threads
};

FileReader::Done read_now(const Shared& shared, const FileReader::Read& read) {
  std::byte* const to = shared.buffers->at(read.buffer).data() + read.into;
  const int file = shared.files[static_cast<std::size_t>(read.file)];
  ssize_t result = 0;
  do {
    result = pread(file, to, read.bytes, static_cast<off_t>(read.offset));
  } while (result < 0 && errno == EINTR);
  return {.buffer = read.buffer, .result = result < 0 ? -errno : result};
}

void read_until_stop(Shared& shared) {
  MutexLock lock(shared.mutex);
  while (true) {
    while (!shared.stop && shared.queued.empty()) shared.work.wait(lock);
    if (shared.stop) break;
    const FileReader::Read read = shared.queued.front();
    shared.queued.erase(shared.queued.begin());
    lock.unlock();
    const FileReader::Done done = read_now(shared, read);
    lock.lock();
    shared.done.push_back(done);
    shared.ended.notify_one();
  }
  --shared.running;
  shared.ended.notify_one();
}

class ReadThreads final : public FileReader {
 public:
  ReadThreads(std::span<const int> files, const ReaderOptions& options)
      : FileReader(options), shared_(std::make_shared<Shared>(buffers_, files)) {}

  ~ReadThreads() override {
    MutexLock lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_all();
    const auto deadline = std::chrono::steady_clock::now() + kLastReads;
    while (shared_->running > 0 && shared_->ended.wait_until(lock, deadline) != std::cv_status::timeout) {
    }
    const bool ended = shared_->running == 0;
    lock.unlock();
    for (std::thread& thread : threads_) {
      if (ended) {
        thread.join();
      } else {
        thread.detach();  // what it uses it owns
      }
    }
  }

  void start(const Read& read) override {
    if (threads_.empty()) start_threads();
    const MutexLock lock(shared_->mutex);
    shared_->queued.push_back(read);
    shared_->work.notify_one();
    ++under_way_;
  }

  void submit() override {}  // start() began it

  std::optional<Done> wait(std::chrono::milliseconds time) override {
    const auto deadline = std::chrono::steady_clock::now() + time;
    MutexLock lock(shared_->mutex);
    while (shared_->done.empty()) {
      if (shared_->ended.wait_until(lock, deadline) == std::cv_status::timeout && shared_->done.empty())
        return std::nullopt;
    }
    const Done done = shared_->done.back();
    shared_->done.pop_back();
    --under_way_;
    return done;
  }

  int under_way() const override { return under_way_; }
  const char* name() const override { return "threads"; }

 private:
  /// They take no signals: the program's are for its own threads.
  void start_threads() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (int i = 0; i < std::min(kMostThreads, options().depth) && error == 0; ++i) {
      {
        const MutexLock lock(shared_->mutex);
        ++shared_->running;
      }
      try {
        threads_.emplace_back([shared = shared_] { read_until_stop(*shared); });
      } catch (const std::system_error& failed) {
        error = failed.code().value();
        const MutexLock lock(shared_->mutex);
        --shared_->running;
      }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (threads_.empty()) throw_errno("cannot start a thread for reading features", error);
  }

  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  int under_way_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> open_read_threads(std::span<const int> files, const ReaderOptions& options) {
  return std::make_unique<ReadThreads>(files, options);
}

}  // namespace hopfeed
