// Does what import and generate do once they have a graph: orders it, writes it, reports.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "partition_tool/dataset_build.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/hotness/hotness.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// WriteOptions are what every command takes that writes a dataset.
struct WriteOptions {
  std::string folder;
  std::optional<std::string> fanouts;      // the fanouts that the node order is computed for
  std::optional<std::int64_t> batch_size;  // the batch size that the node order is computed for
  bool overwrite = false;
  int threads = 1;
  std::string json;
  std::string command_line;  // noted in the dataset
};

struct MakeOptions : WriteOptions {
  bool no_edge_ids = false;
  bool by_id = false;  // rows in the order of source ids too
  bool reject_nonfinite = false;
};

/// Imports a graph, and tells before what memory it wants.
using Import = std::function<RawGraph(const Progress& progress, const TellMemory& tell)>;
/// Runs `import`, then the shared stage, into a dataset of one partition.
void make_dataset(const MakeOptions& options, const Import& import);

/// Checks --fanouts and --batch-size; what was not given is taken from `defaults`.
HotnessOptions hotness_options(const WriteOptions& options, const HotnessOptions& defaults = {});
/// Checks --fanouts and --batch-size of commands that read a dataset; what was not given is taken from its
/// own.
HotnessOptions input_hotness(const WriteOptions& options, const DatasetMeta& input);

/// Throws kCorrupt, for commands that keep the content, where what was read of `input` has another
/// fingerprint than its manifest says.
void require_same_content(const std::string& input, const DatasetMeta& said, const DatasetMeta& read);

/// Orders the nodes, writes them as one partition and commits.
DatasetBuildResult write_whole(DatasetWriter& writer, const RawGraph& graph, const HotnessOptions& hotness,
                               DatasetBuildOptions options, Bars& bars);

/// Calls write_halos() with a bar.
void write_halos_of(DatasetWriter& writer, DatasetMeta& meta, Bars& bars);

/// A DatasetCost is what making a dataset took.
struct DatasetCost {
  double seconds = 0;              // all of it
  double cut_seconds = 0;          // of the partitioner alone
  std::uint64_t memory_bytes = 0;  // about, as it was told before; 0: it was not
};

/// Says what was written on stdout; returns the same for the report.
nlohmann::json report_dataset(const std::string& folder, const DatasetBuildResult& result,
                              const DatasetCost& cost);

}  // namespace hopfeed
