// Decides which partition each node goes to: [N], nodes of all types numbered through.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct PartitionOptions {
  int partitions = 1;
  std::uint64_t seed = 0;
  int threads = 1;
  std::int64_t metis_degree = 0;  // METIS sees about this many neighbours of each node; 0: all
  std::int64_t metis_limit =
      (std::int64_t{1} << 31) - 1;  // nodes and directed edges that METIS can number; tests lower it
};

/// Deals the nodes of each type at random; sizes differ by at most one.
std::vector<std::int32_t> partition_randomly(const RawGraph& graph, const PartitionOptions& options);

/// MetisFit says how much of a graph METIS can be given.
struct MetisFit {
  std::int64_t degree = 0;        // for PartitionOptions::metis_degree; 0: all fits
  std::uint64_t whole_bytes = 0;  // of memory that the whole graph would take, an estimate
};

/// Returns the largest degree whose graph fits METIS's numbers and `available` bytes. Throws kNoSpace where
/// none does.
MetisFit fit_metis(const RawGraph& graph, const PartitionOptions& options, std::uint64_t available);

/// Cuts by METIS k-way (Karypis and Kumar, "Multilevel k-way Partitioning Scheme for Irregular Graphs", 1998)
/// over the nodes and edges of all types: few edges cut, the nodes of each type and the training nodes
/// balanced. METIS gets the graph of undirected_graph.h. Another seed makes another cut, unless the two
/// differ by a multiple of 2^31 - 2. It may leave partitions without a node. Throws kUnsupported where that
/// graph does not fit its 32-bit numbers, kNoSpace where METIS runs out of memory.
std::vector<std::int32_t> partition_by_metis(const RawGraph& graph, const PartitionOptions& options,
                                             const Progress& progress);

/// Throws kUnsupported where METIS cannot number so many nodes, whatever it sees of their edges.
void require_metis_nodes(std::int64_t num_nodes, const PartitionOptions& options = {});

/// Throws kInvalid where a partition that `method` ("metis", "random") has made has no node.
void require_no_empty_partition(const std::vector<std::int32_t>& partition_of, int partitions,
                                const std::string& method);

}  // namespace hopfeed
