// VirtualTime gives turns to those who share something, by start-time fair queueing (Goyal et al.,
// "Start-time Fair Queuing", 1996): each has a virtual time, what it has had so far, and the one with the
// least is served. Who rests, for want of work or because it takes nothing, goes on at about the time of the
// others: nobody saves up.
#pragma once
#include <algorithm>

namespace hopfeed {

struct Turn {
  double time = 0;
  bool resting = true;
};

class VirtualTime {
 public:
  double now() const { return now_; }
  /// Returns when a turn would be served.
  double start(const Turn& turn) const {
    return turn.resting ? std::max(turn.time, now_ - kCredit) : turn.time;
  }
  /// Serves a turn now, which is charged by adding to its time.
  void serve(Turn& turn) {
    turn = {.time = start(turn), .resting = false};
    now_ = std::max(now_, turn.time);
  }

 private:
  /// A turn may lag so far behind after a rest: the way to it and back is no rest, and costs it nothing.
  static constexpr double kCredit = 0.05;
  double now_ = 0;
};

}  // namespace hopfeed
