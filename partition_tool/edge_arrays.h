// EdgeArrays is what a dataset keeps of edges beside their ends: attributes, alias tables of the weights
// among them, and the orders of rows by times and by source ids. It is a part of the shared last stage
// (dataset_build.h), streamed as the rest of it.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/fingerprint.h"
#include "partition_tool/node_order.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

class EdgeArrays {
 public:
  struct Options {
    int threads = 1;
    const Progress& progress;
  };
  /// All of them must outlive this. `orders` has one for each node type, `edge` describes the arrays and how
  /// many edges each partition has.
  EdgeArrays(DatasetWriter& writer, const RawGraph& graph, int edge_type, std::span<const NodeOrder> orders,
             const EdgeTypeMeta& edge, const Options& options);

  /// Writes the arrays of all partitions and adds attributes to one fingerprint per thread.
  /// `nonfinite(attribute, count)` hears of each attribute. The bytes do not depend on the number of threads.
  /// Throws kInvalid naming file, attribute and edge where weights cannot be drawn by.
  void write(std::span<Fingerprint> fingerprints,
             const std::function<void(const std::string& attr, std::int64_t count)>& nonfinite);

 private:
  void write_attr(int number, std::span<Fingerprint> fingerprints,
                  const std::function<void(const std::string&, std::int64_t)>& nonfinite);
  void write_alias(const std::string& weight);
  template <class Id>
  void write_alias(const std::string& weight, std::span<const Id> new_ids);
  void write_time_order(const std::string& time);
  template <class Id>
  void write_time_order(const std::string& time, std::span<const Id> new_ids);
  template <class Id>
  void write_by_id();

  /// Calls row(worker, node, begin, end) for all rows of a partition, in blocks; begin and end count edges
  /// from the block's first. `start(edges)` comes before each block, `finish()` behind it.
  template <class Start, class Row, class Finish>
  void for_rows(int partition, const std::string& step, std::int64_t edge_bytes, const Start& start,
                const Row& row, const Finish& finish);

  DatasetWriter& writer_;
  const RawGraph& graph_;
  const int edge_type_;
  const RawEdges& edges_;
  const NodeOrder &order_, &source_order_;
  const EdgeTypeMeta& edge_;
  const Options options_;
};

}  // namespace hopfeed
