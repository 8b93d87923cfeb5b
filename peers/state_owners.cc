// See state_owners.h.
#include "peers/state_owners.h"

#include <algorithm>
#include <utility>

namespace hopfeed {

StateOwners::StateOwners(const DatasetMeta& meta, const PeerOptions& options,
                         std::function<void()> while_waiting)
    : network_(meta, {}, options, PeerService::kState, std::move(while_waiting)) {
  network_.wait_until_known();
  std::vector<int> servers;  // by owner
  for (const int server : network_.servers()) {
    const auto found = std::ranges::find(servers, server);
    owners_.push_back(static_cast<int>(found - servers.begin()));
    if (found != servers.end()) continue;
    servers.push_back(server);
    partition_of_.push_back(static_cast<int>(owners_.size()) - 1);
  }
}

StateNetwork::Ticket StateOwners::ask(int owner, RecycledBytes question) {
  return network_.ask(partition_of_[static_cast<std::size_t>(owner)], std::move(question));
}

}  // namespace hopfeed
