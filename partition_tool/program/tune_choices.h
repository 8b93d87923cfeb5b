// TuneChoices are what hopfeed-partition tune is asked for on its command line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/feature_tiers.h"

namespace hopfeed {

struct TuneChoices {
  std::string folder, json, plot, machine, summary;
  std::string link;                      // empty: worker mode; "loopback"; bytes a second
  std::string features_from = "memory";  // or "file"
  FeatureTiers features;
  std::vector<std::string> measured;
  std::string fanouts = "15,10,5", policies = "stored,degree,oracle", split = "train";
  std::string node_type;  // of the seeds; empty: the first that has the split
  std::int64_t batch_size = 1024, num_workers = 2, most_batches = 40;
  std::uint64_t seed = 0;
  int threads = 1;
  bool evictions = false, digest = false;
  std::optional<std::int64_t> reader;  // partition: evictions of the rows that it reads of others
  std::size_t budget = 0;              // 0: not given
  double seconds = 4;                  // seconds that the stages are measured for
  std::optional<double> train_ms;
  double within = 5;  // percent of the best epoch
};

}  // namespace hopfeed
