// Takes the links of a split to its file: links that left the graph are held, links that are its edges are
// read from its rows.
#pragma once
#include <string>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// KeptLinks are links that are no edges of the graph any more. What lies in memory are their ends and times.
struct KeptLinks {
  IdArray pairs, negatives;         // {source, destination}
  std::vector<std::int64_t> times;  // of the pairs
  bool with_labels = false;
};

/// Returns positives, labelled 1, then negatives, labelled 0; the i-th negative has the time of the i-th
/// positive, and so on round.
RawLinks raw_links_of(KeptLinks links);

/// Returns links that are the edges of the graph, `positives` of them; of undirected ones those with source
/// <= destination. `time` is the attribute that has their times, or empty.
RawLinks links_of_rows(std::int64_t positives, bool undirected, const std::string& time, IdArray negatives,
                       bool with_labels);

}  // namespace hopfeed
