// A PeerRound asks one question of each of several partitions, all under way together. What was asked and not
// taken is dropped at its end, so that an error leaves nothing behind.
#pragma once
#include <functional>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/partition_peers.h"

namespace hopfeed {

class PeerRound {
 public:
  /// `dataset` must outlive it.
  explicit PeerRound(const Dataset& dataset) : dataset_(dataset) {}
  ~PeerRound();
  PeerRound(const PeerRound&) = delete;
  PeerRound& operator=(const PeerRound&) = delete;

  /// Asks a partition. Throws what Dataset::require_peers and PartitionPeers throw, as take() does.
  void ask(int partition, PeerBytes question);
  /// Has what was asked leave, where something is done before take().
  void send();
  /// Waits for the answers in the order of asking, and gives each once.
  void take(const std::function<void(int partition, const PeerAnswer& answer)>& each);

 private:
  struct Asked {
    int partition = 0;
    PartitionPeers::Ticket ticket = 0;
  };
  const Dataset& dataset_;
  std::vector<Asked> asked_;
  std::size_t taken_ = 0;
};

}  // namespace hopfeed
