// Writes the edge splits of a dataset: links of each edge type, streamed as the rest of the shared last stage
// (dataset_build.h).
#pragma once
#include <functional>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/fingerprint.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Writes all splits of an edge type, which `edge` describes, and adds them to the fingerprint.
void write_links(DatasetWriter& writer, const RawGraph& graph, int edge_type, const EdgeTypeMeta& edge,
                 Fingerprint& fingerprint, const Progress& progress);

}  // namespace hopfeed
