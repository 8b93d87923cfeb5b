// See open_partitions.h.
#include "peers/open_partitions.h"

#include <utility>

#include "peers/peer_network.h"
#include "wire/security.h"

namespace hopfeed {

std::unique_ptr<Dataset> open_partitions(const std::filesystem::path& folder, const PeerOptions& options,
                                         PeersAt when, HugePages huge_pages,
                                         std::function<void()> while_waiting) {
  options.validate();
  auto dataset = std::make_unique<Dataset>(
      folder,
      DatasetOptions{.huge_pages = huge_pages, .some_partitions = options.on(), .partitions = options.own});
  if (dataset->whole()) return dataset;
  auto peers = std::make_shared<PeerNetwork>(dataset->meta(), dataset->partitions(), options,
                                             PeerService::kPartitions, std::move(while_waiting));
  if (when == PeersAt::kKnown) peers->wait_until_known();
  dataset->set_peers(std::move(peers));
  return dataset;
}

std::string peer_token(const std::string& file) { return wire::read_token(file); }

}  // namespace hopfeed
