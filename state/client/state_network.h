// A StateNetwork carries questions to owners of state, and answers back (folder `peers` does it over
// sockets). Where the connection to an owner is lost, what was asked and not answered is asked again once it
// is back, in the order in which it was asked; so a question may be given twice, and no answer is lost.
#pragma once
#include <cstdint>
#include <memory>

#include "core/base/recycled_bytes.h"

namespace hopfeed {

class StateNetwork {
 public:
  using Ticket = std::uint64_t;
  virtual ~StateNetwork() = default;

  virtual int num_owners() const = 0;
  /// Returns the owner that has a partition.
  virtual int owner_of(int partition) const = 0;
  /// Asks, and does not wait. Any thread; what one thread asks of an owner is given in that order.
  virtual Ticket ask(int owner, RecycledBytes question) = 0;
  /// Returns the answer to a question, each once. It may take as long as others take to do their part; an
  /// owner that is lost is waited for up to a deadline. Throws what the owner refused, kPeerDied where it is
  /// gone; where a wait is left by anything else, the same may be waited for again.
  virtual std::shared_ptr<const RecycledBytes> wait(Ticket ticket) = 0;
  /// Drops a question: nobody waits for its answer any more. It is given all the same.
  virtual void drop(Ticket ticket) noexcept = 0;
};

}  // namespace hopfeed
