// CacheMembers are the members of a dynamic cache: each holds the lock of an open file description on its
// byte for its life, so that the kernel tells everybody of its death, however it came. Who joins, or misses
// tickets or frames, takes back what the dead have left: their pins, the frames that they were filling, their
// announcements.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/cache_section.h"
#include "core/base/thread_annotations.h"

namespace hopfeed {

class CacheMembers {
 public:
  using Sections = std::span<const std::unique_ptr<CacheSection>>;

  /// Sweeps, and joins where a slot is free. `memory` and `sections` must outlive it.
  CacheMembers(const CacheMemory& memory, Sections sections);
  /// Leaves. What is still owed then goes to the next who sweeps.
  ~CacheMembers();
  CacheMembers(const CacheMembers&) = delete;
  CacheMembers& operator=(const CacheMembers&) = delete;

  /// Returns this member's number; -1 where it has none.
  int member() const { return member_; }
  /// Tells whether this process joined: false in a child that was forked off, since what the parent holds is
  /// not the child's to give back.
  bool is_mine() const;
  /// Sweeps where a section wants it; at most once a second. Nobody waits for it but who does it.
  void sweep_if_wanted();

 private:
  std::uint64_t find_dead();
  void sweep();
  bool sweep_section(CacheSection& section, std::uint64_t dead);
  bool lock_byte(int byte);
  void unlock_byte(int byte);

  const CacheMemory& memory_;
  const Sections sections_;
  const int pid_;
  int member_ = -1;
  Mutex sweep_mutex_;
  std::atomic<std::int64_t> next_sweep_{0};  // steady nanoseconds
};

}  // namespace hopfeed
