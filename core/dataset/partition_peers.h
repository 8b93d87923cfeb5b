// PartitionPeers answer for the partitions of a dataset that are not on this machine: their owners, on
// others. A dataset that was opened with some partitions has one (Dataset::set_peers). What is asked and
// answered is bytes here; core/sampler/peer_questions.h says what they mean, core/maker/partition_owner.h
// answers them, and folder `peers` carries them from machine to machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/recycled_bytes.h"

namespace hopfeed {

/// PeerBytes hold an answer, for as long as somebody keeps it.
using PeerBytes = RecycledBytes;
using PeerAnswer = std::shared_ptr<const PeerBytes>;

class PartitionPeers {
 public:
  using Ticket = std::uint64_t;
  virtual ~PartitionPeers() = default;
  /// Asks the owner of a partition, and does not wait. Any thread. It leaves with what else is asked until
  /// send_asked(), or until somebody waits. Throws kNotFound where nobody has it.
  virtual Ticket ask(int partition, PeerBytes question) = 0;
  /// Returns the answer to a question, each once. An owner that has died is waited for, or a replica asked,
  /// up to a deadline; then it throws kPeerDied or kTimeout naming the machine. Throws what an owner refused,
  /// naming it, where none is there that has not.
  virtual PeerAnswer wait(Ticket ticket) = 0;
  /// Drops a question: nobody waits for its answer any more.
  virtual void drop(Ticket ticket) noexcept = 0;
  /// Has all that was asked leave, together.
  virtual void send_asked() {}

  struct Asked {
    std::int64_t questions = 0;
    std::int64_t twice = 0;  // of a second server too, since the first was late
  };
  /// Returns what was asked since the last call, whoever made it: each question is told once.
  virtual Asked take_counts() noexcept { return {}; }
};

}  // namespace hopfeed
