// These words tell the compiler which lock guards a field, and which a function needs. clang checks it
// (-Wthread-safety); for other compilers the words are empty. std::mutex carries no such words in libstdc++,
// so that what is checked is locked through the two classes below, which add nothing to it.
//
//   Mutex mutex_;
//   int sum_ GUARDED_BY(mutex_);
//   void add_locked(int more) REQUIRES(mutex_);
//   void add(int more) { const MutexLock lock(mutex_); add_locked(more); }
#pragma once
#include <mutex>

#if defined(__clang__)
#define HOPFEED_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HOPFEED_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(name) HOPFEED_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY HOPFEED_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(mutex) HOPFEED_THREAD_ATTRIBUTE(guarded_by(mutex))
#define REQUIRES(...) HOPFEED_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) HOPFEED_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) HOPFEED_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) HOPFEED_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace hopfeed {

/// A Mutex is a std::mutex that the analysis knows.
class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope; who has to wait for something else gives it up for that long.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

}  // namespace hopfeed
