// An edge list to rows: a stable counting sort by destination.
#pragma once
#include <string>

#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct EdgesToCscOptions {
  bool keep_edge_ids = true;
  int threads = 1;
  std::string origin = "the edge list";  // named in errors: a file
};

/// `source` and `destination` have one length. Throws kInvalid naming the origin, the edge and the id where
/// an id is not in [0, num_nodes).
Csc edges_to_csc(const IdSpan& source, const IdSpan& destination, std::int64_t num_nodes,
                 const EdgesToCscOptions& options, const Progress& progress);

}  // namespace hopfeed
