// The links of a split on their way to its file: those that left the graph are held, those that are its edges
// are read from its rows.
#pragma once
#include <string>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Links that are no edges of the graph any more. What lies in memory are their ends and times.
struct KeptLinks {
  IdArray pairs, negatives;         // {source, destination}
  std::vector<std::int64_t> times;  // of the pairs
  bool with_labels = false;
};

/// Positives, labelled 1, then negatives, labelled 0; the i-th negative has the time of the i-th positive,
/// and so on round.
RawLinks raw_links_of(KeptLinks links);

/// Links that are the edges of the graph, `positives` of them; of undirected ones those with source <=
/// destination. `time` is the attribute that has their times, or empty.
RawLinks links_of_rows(std::int64_t positives, bool undirected, const std::string& time, IdArray negatives,
                       bool with_labels);

}  // namespace hopfeed
