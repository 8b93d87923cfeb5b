// Turns an edge list into rows: a stable counting sort by destination.
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

/// EdgeEnds says how many nodes there are at either end.
struct EdgeEnds {
  std::int64_t sources = 0, destinations = 0;
};

/// Makes the rows; `source` and `destination` have one length. Throws kInvalid naming the origin, the edge
/// and the id where an id is not below the number of its nodes.
Csc edges_to_csc(const IdSpan& source, const IdSpan& destination, const EdgeEnds& ends,
                 const EdgesToCscOptions& options, const Progress& progress);

}  // namespace hopfeed
