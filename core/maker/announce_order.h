// AnnounceOrder orders how batches that one process samples on several threads announce their rows to a
// cache: their own order, and not that in which their sampling ends. Which batch wants a row first decides
// what the cache keeps, and it takes the first that announced for the first that comes (cached_rows.h).
//
// A batch has a turn from join() to leave(), and in await() waits for all lower ones that have joined and not
// left. It leaves when it has announced, has failed or is given up: so each wait ends as soon as the sampling
// of the lower batches has ended, however it ended. A turn decides hits of the cache and never a byte, and
// who has waited kLongestTurn goes on without it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace hopfeed {

/// A batch waits so long at most for lower ones, which may be waiting for a machine that does not answer.
inline constexpr std::chrono::milliseconds kLongestTurn{2'000};

class AnnounceTurn;

/// It is the order of all makers that announce to one cache. Any thread may use it.
class AnnounceOrder {
 public:
  AnnounceOrder() = default;
  AnnounceOrder(const AnnounceOrder&) = delete;
  AnnounceOrder& operator=(const AnnounceOrder&) = delete;

 private:
  friend class AnnounceTurn;
  std::mutex mutex_;
  std::set<std::pair<std::uint64_t, AnnounceTurn*>> coming_;  // by sequence: batches still to announce
};

/// An AnnounceTurn has the turns of one maker, which has one batch under way at a time. One thread at a time
/// may use it; join() comes in the order of the batches, before the threads that sample them.
class AnnounceTurn {
 public:
  /// `order` must outlive it.
  explicit AnnounceTurn(AnnounceOrder& order) : order_(order) {}
  ~AnnounceTurn() { leave(); }
  AnnounceTurn(const AnnounceTurn&) = delete;
  AnnounceTurn& operator=(const AnnounceTurn&) = delete;

  /// Begins a batch's turn. The maker's last batch leaves, if it has not.
  void join(std::uint64_t sequence);
  /// Returns when no lower batch is still to announce, or after kLongestTurn.
  void await();
  /// Ends the turn: the batch announces no more.
  void leave();

 private:
  AnnounceOrder& order_;
  std::optional<std::uint64_t> sequence_;  // while it is in the order
  std::condition_variable lowest_;         // it is now the lowest
};

}  // namespace hopfeed
