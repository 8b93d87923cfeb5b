// The CSV files of OGB's raw downloads, gzipped or plain. Everything throws kInvalid or kCorrupt naming file and line, kNotFound
// naming the file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "partition_tool/edges_to_csc.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// FOLDER/STEM.csv.gz or FOLDER/STEM.csv; nothing where neither is there.
std::optional<std::filesystem::path> find_csv(const std::filesystem::path& folder, const std::string& stem);
std::filesystem::path require_csv(const std::filesystem::path& folder, const std::string& stem);

/// The one number of num-node-list or num-edge-list, 0 to `limit`.
std::int64_t read_ogb_count(const std::filesystem::path& path, std::int64_t limit);

struct OgbEdges {
  std::vector<std::int64_t> source, destination;
};
struct OgbEdgeOptions {
  EdgeEnds ends;
  bool add_inverse = false;  // each edge is followed by its inverse
};
/// Lines of source,destination; as many as num-edge-list beside the file says, where it is there.
OgbEdges read_ogb_edges(const std::filesystem::path& path, const OgbEdgeOptions& options,
                        const Progress& progress);

/// The attribute "x", a line of numbers per node.
RawAttr ogb_node_features(const std::filesystem::path& path, std::int64_t num_nodes,
                          const Progress& progress);

struct OgbEdgeLines {
  std::int64_t lines = 0;
  std::int64_t edges_per_line = 1;  // edge e has the features of line e / edges_per_line
};
RawEdgeAttr ogb_edge_features(const std::filesystem::path& path, const std::string& name,
                              const OgbEdgeLines& edges, const Progress& progress);

/// One class number a line, nan for none.
std::vector<std::int64_t> read_ogb_labels(const std::filesystem::path& path, std::int64_t num_nodes);
/// One node id a line.
std::vector<std::int64_t> read_ogb_split(const std::filesystem::path& path, std::int64_t num_nodes);

/// RAW/split/SCHEME; `scheme` may be empty where there is only one.
std::filesystem::path ogb_split_folder(const std::filesystem::path& raw, const std::string& scheme);

}  // namespace hopfeed
