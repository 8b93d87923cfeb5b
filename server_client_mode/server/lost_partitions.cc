// See lost_partitions.h.
#include "server_client_mode/server/lost_partitions.h"

#include <fmt/format.h>

#include <utility>

#include "peers/peer_network.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

/// Machines that start together find each other within it.
constexpr std::chrono::milliseconds kFoundWithin = 1'000ms;

std::vector<MissingPartition> missing_of(const ServedDataset& served) {
  const auto* const network = dynamic_cast<const PeerNetwork*>(served.dataset->peers());
  return network != nullptr ? network->missing() : std::vector<MissingPartition>();
}

}  // namespace

void LostPartitions::look() {
  const auto now = std::chrono::steady_clock::now();
  auto before = std::exchange(told_, {});
  for (const ServedDataset& served : datasets_.all()) {
    for (const MissingPartition& missing : missing_of(served)) {
      const std::pair key(served.meta().fingerprint, missing.partition);
      const auto known = before.extract(key);
      if (!known.empty()) {
        told_[key] = known.mapped();
        continue;
      }
      if (missing.since < kFoundWithin) continue;
      told_[key] = now - missing.since;
      log_.add("partition_lost", {{"dataset", served.meta().name},
                                  {"partition", std::to_string(missing.partition)},
                                  {"why", missing.why}});
    }
  }
  for (const auto& [key, since] : before)
    log_.add("partition_found", {{"dataset", datasets_.by_fingerprint(key.first).meta().name},
                                 {"partition", std::to_string(key.second)},
                                 {"seconds", fmt::format("{:.1f}", Seconds(now - since).count())}});
}

std::vector<LostPartition> LostPartitions::list() const {
  std::vector<LostPartition> all;
  for (const ServedDataset& served : datasets_.all()) {
    for (MissingPartition& missing : missing_of(served))
      all.push_back({.dataset = served.meta().name,
                     .partition = missing.partition,
                     .seconds = Seconds(missing.since).count(),
                     .why = std::move(missing.why)});
  }
  return all;
}

}  // namespace hopfeed
