// A SlotKeeper keeps the slots of a channel that others fill, whoever these are: gives each filler a name
// nobody had before it (its incarnation), gives a dead one's slots back to be planned again, takes back slots
// that nobody living owns, and answers who waits for memory. What a filler is, how it is started and how its
// death is noticed is the business of SlotFillers.
//
// One thread keeps a channel and owns this: the supervisor's where processes fill it, an event loop's where
// connections do.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "stream/channel_host.h"

namespace hopfeed {

class SlotKeeper {
 public:
  explicit SlotKeeper(std::shared_ptr<ChannelHost> host);
  ChannelHost& host() const { return *host_; }

  /// Welcomes filler `number`, whose record this is, and which is about to start: clears what the one before
  /// it left in the record, and writes its new name there, which a WorkerPort reads. The one before it is
  /// dead.
  void welcome(std::uint32_t number);
  /// Buries filler `number`, which is dead (not: seems to be; who still writes would write into somebody
  /// else's slot). All its slots go back. Call it before anybody replaces the filler.
  void bury(std::uint32_t number);
  /// Grants, frees and plans what can be: call it whenever the doorbell was rung, and now and then.
  void serve() { host_->service(); }
  /// Returns the name that filler `number` leaves in slots; 0 where none lives.
  std::uint32_t name_of(std::uint32_t number) const { return names_[number]; }
  /// Gives back the slots of `filling` whose owner is nobody living, since they will never be finished.
  /// Whatever lives under that number is no filler of this channel.
  void reclaim_ownerless(const std::vector<SlotPool::Filling>& filling);

 private:
  const std::shared_ptr<ChannelHost> host_;
  std::vector<std::uint32_t> names_;  // [num_workers]
  std::uint32_t last_name_ = 0;
};

}  // namespace hopfeed
