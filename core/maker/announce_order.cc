// See announce_order.h.
#include "core/maker/announce_order.h"

namespace hopfeed {

void AnnounceTurn::join(std::uint64_t sequence) {
  leave();
  const std::lock_guard lock(order_.mutex_);
  order_.coming_.insert({sequence, this});
  sequence_ = sequence;
}

void AnnounceTurn::await() {
  if (!sequence_) return;
  std::unique_lock lock(order_.mutex_);
  lowest_.wait_for(lock, kLongestTurn, [this] { return order_.coming_.begin()->second == this; });
}

void AnnounceTurn::leave() {
  if (!sequence_) return;
  const std::lock_guard lock(order_.mutex_);
  order_.coming_.erase({*sequence_, this});
  sequence_.reset();
  if (!order_.coming_.empty()) order_.coming_.begin()->second->lowest_.notify_one();
}

}  // namespace hopfeed
