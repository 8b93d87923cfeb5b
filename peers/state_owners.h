// StateOwners are the servers that own the state of a dataset's partitions: a StateNetwork over sockets.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "peers/peer_network.h"
#include "peers/peer_options.h"
#include "state/client/state_network.h"

namespace hopfeed {

class StateOwners final : public StateNetwork {
 public:
  /// Connects to options.peers, which have all partitions together, each one of them; options.own does not
  /// count: state of partitions on this machine lies at its own server. Whoever has no folder of the dataset
  /// has `meta` of a server (StreamSource::meta). `while_waiting` is that of PeerNetwork. Throws what
  /// PeerNetwork::wait_until_known throws.
  StateOwners(const DatasetMeta& meta, const PeerOptions& options, std::function<void()> while_waiting = {});

  int num_owners() const override { return static_cast<int>(partition_of_.size()); }
  int owner_of(int partition) const override { return owners_[static_cast<std::size_t>(partition)]; }
  Ticket ask(int owner, RecycledBytes question) override;
  std::shared_ptr<const RecycledBytes> wait(Ticket ticket) override { return network_.wait(ticket); }
  void drop(Ticket ticket) noexcept override { network_.drop(ticket); }

 private:
  PeerNetwork network_;
  std::vector<int> owners_;        // by partition
  std::vector<int> partition_of_;  // by owner: one of those that it has
};

}  // namespace hopfeed
