// Measures sampling on a card of a graph that no dataset has to be made for: a kernel writes it into pinned
// memory, at the size of ogbn-papers100M where nobody asks for another. gpu_made_graph_on.h measures over a
// backend.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hopfeed::bench {

struct MadeGraphOptions {
  std::int64_t nodes = 111'059'956, edges = 1'615'685'872;
  std::vector<std::int64_t> fanouts{15, 10, 5};
  std::int64_t batch_size = 1024;
  double seconds = 3;
  bool graph_on_device = false;  // else it is read in place
  std::int64_t hot_bytes = -1;   // of the device's memory for the hottest rows; -1: as samplers choose it
  bool verify = false;           // edges of a batch are edges of the graph
};

struct MadeGraphRates {
  std::string card;
  double made_seconds = 0;  // of the kernels that write the graph
  double edges_per_s = 0, edges_per_batch = 0, nodes_per_batch = 0, ms_per_batch = 0;
  std::int64_t batches = 0, replays = 0;
  std::int64_t verified_edges = 0;
};

/// Measures on the first card. Throws kNotFound where there is none, kUnsupported in a build without CUDA,
/// kNoSpace where the graph does not fit into memory, kCorrupt where a sampled edge is none of the graph.
MadeGraphRates measure_made_graph(const MadeGraphOptions& options);
/// Measures on this host, by the twin of the card's backend: to try it where no card is.
MadeGraphRates measure_made_graph_on_host(const MadeGraphOptions& options);

}  // namespace hopfeed::bench
