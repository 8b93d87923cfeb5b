// Checks whether the files that a tool reads are as they were written. Tools whose result gets a fingerprint
// of its own ask before: later nobody would notice.
#pragma once
#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"

namespace hopfeed {

/// Compares the checksums of all files but those that are made anew from others (alias tables, rows in the
/// order of time). Throws kCorrupt naming the file.
void check_input(const Dataset& dataset, int threads, const Progress& progress);

}  // namespace hopfeed
