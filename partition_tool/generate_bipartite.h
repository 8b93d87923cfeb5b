// Makes up interactions of users with items, of any size, with what real ones have: few users and items with
// very many, times, and tastes that can be learnt. Every number is a pure function of the seed and decided on
// integers.
//
//   user, item               node types; the int64 attribute "taste" is what was planted: rank mod number of
//                            tastes
//   user -interacts-> item   interactions, ids in the order of the users; its reverse is rev_interacts
//   a user's interactions    as many as the in-degrees of generate.h by rank; with probability `loyalty` an
//                            item of the user's own taste, else any; low ranks are preferred as sources are
//                            there; repeats occur
//   time                     int64 attribute of both edge types, even on [0, span), by which rows are ordered
#pragma once
#include "partition_tool/graph_memory.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct BipartiteOptions {
  std::int64_t num_users = 0, num_items = 0, num_interactions = 0;
  std::int64_t num_tastes = 64;
  double loyalty = 0.8;         // [0, 1]
  std::int64_t span = 777'600;  // nine days of seconds, as long as Taobao's log
  std::uint64_t seed = 0;
  bool keep_edge_ids = true;
  int threads = 1;
  TellMemory tell_memory = {};  // before it is taken
};

/// Makes the graph. Interactions lie in memory by item; by user they are made whenever they are read. Throws
/// kInvalid naming the option that is out of range, kNoSpace where the memory is not to be had.
RawGraph generate_bipartite(const BipartiteOptions& options, const Progress& progress);

}  // namespace hopfeed
