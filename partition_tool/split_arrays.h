// Writes the splits of a dataset: those of nodes, and links of each edge type, streamed as the rest of the
// shared last stage (dataset_build.h). With sharded ids each partition has a range of a split, with dataset
// ids beside the original ones.
#pragma once
#include <functional>
#include <span>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/fingerprint.h"
#include "partition_tool/node_order.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// What both below write from and into; `orders` has one for each node type.
struct SplitWriting {
  DatasetWriter& writer;
  const RawGraph& graph;
  std::span<const NodeOrder> orders;
  DatasetMeta& meta;  // describes the types
  Fingerprint& fingerprint;
};

/// Write all splits of a node type or edge type, and add them to the fingerprint; with sharded ids the
/// manifest gets the smallest label of each.
void write_splits(const SplitWriting& out, int node_type);
void write_links(const SplitWriting& out, int edge_type, const Progress& progress);

}  // namespace hopfeed
