// Reads a dataset back into the graph that was imported: the input of `partition`, however it was cut before.
#pragma once
#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Returns the graph: rows in memory, attributes read from `dataset`'s maps, which must outlive the result.
/// Throws kCorrupt naming the file where rows or ids contradict each other.
RawGraph read_dataset(const Dataset& dataset, int threads, const Progress& progress);

}  // namespace hopfeed
