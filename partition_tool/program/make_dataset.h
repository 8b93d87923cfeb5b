// What import and generate do once they have a graph: order it, write it, report.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "partition_tool/dataset_build.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// DIR and the options that import and generate have in common.
struct MakeOptions {
  std::string folder;
  std::string fanouts = "15,10,5";
  std::int64_t batch_size = 1024;
  bool overwrite = false;
  bool no_edge_ids = false;
  bool reject_nonfinite = false;
  int threads = 1;
  std::string json;
  std::string command_line;  // noted in the dataset
};

/// Runs `import`, then the shared stage, into a dataset of one partition.
void make_dataset(const MakeOptions& options, const std::function<RawGraph(const Progress&)>& import);

/// Fanouts and batch size of --fanouts and --batch-size, checked.
HotnessOptions hotness_options(const std::string& fanouts, std::int64_t batch_size, int threads);

struct DatasetTimes {
  double seconds = 0;      // all of it
  double cut_seconds = 0;  // of the partitioner alone
};

/// Says what was written, on stdout and as JSON.
void report_dataset(const std::string& folder, const DatasetBuildResult& result, const DatasetTimes& times,
                    JsonReport& json);

}  // namespace hopfeed
