// Runs hopfeed-partition cluster: a dataset becomes one whose nodes know their clusters.
#pragma once
#include <cstdint>
#include <string>

#include "partition_tool/program/cut_nodes.h"
#include "partition_tool/program/make_dataset.h"

namespace hopfeed {

struct ClusterOptions : WriteOptions, CutChoice {  // fanouts and batch size: those of the input by default
  std::string input, attr = "cluster", node_type;  // node_type empty: the first
  std::int64_t clusters = 1;
};

/// Makes a dataset of one partition, however the input was cut. Throws kCorrupt, and leaves nothing behind,
/// where the input is damaged: its content gets another fingerprint, so that nobody would notice later.
void cluster_dataset(const ClusterOptions& options);

}  // namespace hopfeed
