// A SeedStore has seeds that clients gave (BatchSource::pack()), by the SHA-256 that this server took of
// them. Each pack lies once in a memfd, which the workers map, and which takes memory only as it comes. Packs
// stay while a job uses them, and for a while after; all together take no more than their part of the
// server's memory.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {

/// StoredSeeds are the bytes of one pack, mapped.
class StoredSeeds {
 public:
  /// Takes addresses alone. Throws kNoSpace or kIo.
  explicit StoredSeeds(std::size_t bytes);
  ~StoredSeeds();
  StoredSeeds(const StoredSeeds&) = delete;
  StoredSeeds& operator=(const StoredSeeds&) = delete;

  /// Takes memory for the first `bytes`. Who receives them calls it; throws kNoSpace or kIo.
  void back(std::size_t bytes);
  std::size_t backed() const { return backed_; }
  /// Returns the bytes. Who receives them writes them once, before they are kept, where they are backed.
  std::span<std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<const OwnedFd>& fd() const { return fd_; }

 private:
  std::shared_ptr<const OwnedFd> fd_;
  std::span<std::byte> bytes_;
  std::size_t backed_ = 0;
};

/// Any thread may use it.
class SeedStore {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::size_t max_bytes = 0;
    std::chrono::milliseconds kept{};  // after their last use
  };
  explicit SeedStore(Options options) : options_(options) {}

  /// Makes a place for seeds that are about to come, of which nothing is counted so far. Throws kNoSpace
  /// naming the bound where they are more than half of all that is kept, which one client may not have.
  std::shared_ptr<StoredSeeds> make(std::size_t bytes);
  /// Takes memory for the first `bytes` of them; where it lacks, those that nobody uses go first. It is given
  /// back with the last pointer. It takes its time, so it runs beside the event loop. Throws kNoSpace naming
  /// the bound.
  void grow(StoredSeeds& seeds, std::size_t bytes);
  /// Takes the hash of seeds and keeps them under it; the same ones twice are kept once. Returns the hash.
  std::string keep(const std::shared_ptr<StoredSeeds>& seeds);
  /// Returns null where they are not here (any more).
  std::shared_ptr<const StoredSeeds> find(const std::string& sha256);
  /// Lets go of what nobody has used for too long.
  void expire(Clock::time_point now = Clock::now());
  std::size_t bytes() const;

 private:
  struct Kept {
    std::shared_ptr<const StoredSeeds> seeds;
    Clock::time_point last_used;
  };
  /// Takes out the oldest that nobody uses, so that `bytes` more fit; the caller lets go of them, without the
  /// lock.
  std::vector<std::shared_ptr<const StoredSeeds>> take_unused_for(std::size_t bytes);

  const Options options_;
  mutable Mutex mutex_;
  std::map<std::string, Kept> kept_ GUARDED_BY(mutex_);
  /// It counts the bytes of all seeds that live, also of those that are not kept yet or only used.
  std::shared_ptr<std::atomic<std::size_t>> counted_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace hopfeed
