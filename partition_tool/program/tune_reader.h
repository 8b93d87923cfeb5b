// Runs hopfeed-partition tune --evictions --reader P: what a machine that has one partition would have had of
// the rows of the others, by several rankings and with several windows.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {

struct TuneReaderOptions {
  std::int64_t reader = 0;  // partition
  BatchOptions batch;
  std::int64_t batch_size = 1024, batches = 40;
  int node_type = 0;                    // of the seeds
  std::span<const std::int64_t> seeds;  // original ids, of all partitions
  std::uint64_t seed = 0;
  int threads = 1;
};

/// These shares of the remote rows are held.
inline constexpr double kReaderRatios[] = {0.05, 0.1, 0.2};

struct TuneReaderReport {
  int reader = 0;
  bool stored = false;     // the dataset has a ranked list of the reader's
  std::int64_t seeds = 0;  // of the reader's own, or all where it has none
  std::int64_t batches = 0;
  std::int64_t remote_rows = 0;            // remote rows that there are
  double own_reads = 0, remote_reads = 0;  // a batch
  struct Line {
    std::string how;               // "static, owners' order", "belady, window 4", ...
    std::vector<double> hit_rate;  // per ratio: of the reads of remote rows
  };
  std::vector<Line>
      lines;  // the last but one is belady with all of the future known, the last its best order
};

/// Simulates. Throws what RemoteReads and node_hotness throw.
TuneReaderReport simulate_reader(const Dataset& dataset, const TuneReaderOptions& options, Bars& bars);
std::string reader_table(const TuneReaderReport& report);
nlohmann::json reader_json(const TuneReaderReport& report);

}  // namespace hopfeed
