// LostPartitions says which partitions of the served datasets have no server among the peers: in the log once
// each time that one is lost and found again, and in the status.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server_client_mode/server/event_log.h"
#include "server_client_mode/server/served_datasets.h"

namespace hopfeed {

struct LostPartition {
  std::string dataset;  // its name
  int partition = 0;
  double seconds = 0;  // since it was lost, or is looked for
  std::string why;
};

class LostPartitions {
 public:
  /// `datasets` and `log` must outlive it.
  LostPartitions(const ServedDatasets& datasets, const EventLog& log) : datasets_(datasets), log_(log) {}
  /// Looks; one thread calls it now and then.
  void look();
  std::vector<LostPartition> list() const;

 private:
  const ServedDatasets& datasets_;
  const EventLog& log_;
  std::map<std::pair<std::string, int>, std::chrono::steady_clock::time_point>
      told_;  // fingerprint, partition
};

}  // namespace hopfeed
