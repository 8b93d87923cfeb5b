// Measures the file tier for the tuner: which reads batches need, and how many of them this machine's disk
// does.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/batch/held_share.h"
#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"
#include "partition_tool/tune/tune_measure.h"
#include "partition_tool/tune/tune_model.h"

namespace hopfeed {

/// Returns the node attributes that batches carry and that file_features.h reads from files, of rows that are
/// long enough.
std::vector<FeatureName> file_attrs(const Dataset& dataset, const BatchOptions& batch);
/// Returns the bytes of a row of each node type in these attributes.
std::vector<std::int64_t> file_row_bytes(const Dataset& dataset, std::span<const FeatureName> attrs);

/// FileReads are what a batch takes of the files on average: reads as FileFeatures joins them, nothing is
/// read.
struct FileReads {
  double reads = 0, read_bytes = 0;  // whole pages
};
/// Counts the reads. `wanted` says of a row of a node type whether it is read from its file; all are where it
/// is empty.
FileReads count_reads(const Dataset& dataset, std::span<const FeatureName> attrs, const BatchIds& ids,
                      const std::function<bool(std::size_t batch, int type, std::int64_t id)>& wanted = {});

/// Returns the memory of a dynamic cache (dynamic_cache.h) for this share of the rows of these attributes.
std::int64_t row_cache_bytes(const Dataset& dataset, std::span<const FeatureName> attrs, double share);
/// Returns the share that fits into so many bytes.
double row_cache_share(const Dataset& dataset, std::span<const FeatureName> attrs, std::size_t bytes);

struct FileRateOptions {
  int workers = 2;
  double seconds = 1.5;                                          // of each of two measurements
  std::function<void(double done, double total)> progress = {};  // may throw to stop
};
/// Measures reads of the rows of these batches, past the page cache, by one thread and by as many as workers.
FileRates measure_files(const Dataset& dataset, std::span<const FeatureName> attrs, const BatchIds& ids,
                        const FileRateOptions& options);

}  // namespace hopfeed
