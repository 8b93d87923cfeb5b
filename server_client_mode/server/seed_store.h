// Seeds that clients gave (BatchSource::pack()), by the SHA-256 that this server took of them. Each lies once
// in a memfd, which the workers map. They stay while a job uses them, and for a while after; all together
// take no more than their part of the server's memory.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/base/owned_fd.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {

/// The bytes of one pack, mapped.
class StoredSeeds {
 public:
  /// Zeros, backed by memory. Throws kNoSpace or kIo.
  explicit StoredSeeds(std::size_t bytes);
  ~StoredSeeds();
  StoredSeeds(const StoredSeeds&) = delete;
  StoredSeeds& operator=(const StoredSeeds&) = delete;

  /// Written once, by who receives them, before they are kept.
  std::span<std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<const OwnedFd>& fd() const { return fd_; }

 private:
  std::shared_ptr<const OwnedFd> fd_;
  std::span<std::byte> bytes_;
};

/// Any thread.
class SeedStore {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::size_t max_bytes = 0;
    std::chrono::milliseconds kept{};  // after their last use
  };
  explicit SeedStore(Options options) : options_(options) {}

  /// Room for seeds that are about to come; where it lacks, those that nobody uses go first. The room is
  /// given back with the last pointer. Throws kNoSpace naming the bound.
  std::shared_ptr<StoredSeeds> make(std::size_t bytes);
  /// Takes their hash and keeps them under it; the same ones twice are kept once. Returns the hash.
  std::string keep(std::shared_ptr<StoredSeeds> seeds);
  /// Null where they are not here (any more).
  std::shared_ptr<const StoredSeeds> find(const std::string& sha256);
  /// Lets go of what nobody has used for too long.
  void expire(Clock::time_point now = Clock::now());
  std::size_t bytes() const;

 private:
  struct Kept {
    std::shared_ptr<const StoredSeeds> seeds;
    Clock::time_point last_used;
  };
  void drop_unused_until(std::size_t bytes) REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::map<std::string, Kept> kept_ GUARDED_BY(mutex_);
  /// Of all that live, also those that are not kept yet or only used.
  std::shared_ptr<std::atomic<std::size_t>> counted_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace hopfeed
