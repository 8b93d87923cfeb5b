// Decides which edges of a type go where, for split_links.h and one edge type.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// A LinkPart says what becomes of an edge.
enum LinkPart : std::uint8_t {
  kMessagePart,      // stays in the graph
  kSupervisionPart,  // a training link that leaves the graph
  kValidPart,
  kTestPart,
  kMirrorPart,  // leaves the graph with the edge that it is the other way round
};

/// LinkNumbers say how many links of all go where: of pairs where they are chosen at random, of edges where
/// by time (at most).
struct LinkNumbers {
  std::int64_t valid = 0, test = 0, supervision = 0;
};

/// LinkEdges are the edges of the type by imported number of their destination; where edges are undirected,
/// those with source <= destination are the links and the others mirror them.
struct LinkEdges {
  const Csc& csc;
  bool undirected = false;
  int threads = 1;
  bool is_link(std::int64_t source, std::int64_t destination) const {
    return !undirected || source <= destination;
  }
};

/// Returns how many edges are links.
std::int64_t count_links(const LinkEdges& edges);

/// Counts distinct pairs that are links, by row: before[v] in the rows before v; the last entry is the number
/// of all.
std::vector<std::int64_t> count_pairs(const LinkEdges& edges);

/// Returns parts[e] of the e-th edge in the rows one after the other; mirrors are left as messages.
std::vector<std::uint8_t> choose_randomly(const LinkEdges& edges,
                                          const std::vector<std::int64_t>& pairs_before,
                                          const LinkNumbers& numbers, std::uint64_t seed);

/// LinkTimes say from when on edges belong to each part; none: none do.
struct LinkTimes {
  std::optional<std::int64_t> supervision, valid, test;
  LinkPart part_of(std::int64_t time) const {
    if (test && time >= *test) return kTestPart;
    if (valid && time >= *valid) return kValidPart;
    return supervision && time >= *supervision ? kSupervisionPart : kMessagePart;
  }
};

/// Reads the times of a row's edges: read(row, times).
using ReadTimes = std::function<void(std::int64_t row, std::vector<std::int64_t>& times)>;

/// Returns the earliest time such that at most `count` links, which is less than all of them, have it or a
/// later one; none where the latest time alone has more.
std::optional<std::int64_t> latest_links_from(const LinkEdges& edges, const ReadTimes& read,
                                              std::int64_t count);

std::vector<std::uint8_t> choose_by_time(const LinkEdges& edges, const ReadTimes& read,
                                         const LinkTimes& from);

/// HeldPairs are the links that leave the graph, by their source.
class HeldPairs {
 public:
  HeldPairs(const LinkEdges& edges, const std::vector<std::uint8_t>& parts, std::int64_t num_sources);
  bool contains(std::int64_t source, std::int64_t destination) const;

 private:
  std::vector<std::int64_t> begin_;  // [sources + 1]
  IdArray destinations_;             // rising for each source
};

/// Marks the mirrors of held links; a no-op where edges are not undirected.
void mark_mirrors(const LinkEdges& edges, const HeldPairs& held, std::vector<std::uint8_t>& parts);

/// Returns whether no edge joins two different nodes; it is for edges between nodes of one type.
bool only_loops(const LinkEdges& edges);

/// Returns a sum over all edges that tells, by chance of 2^-64, whether two sets of edges are the same.
/// `swapped` sums them the other way round; with `read` times count and how often they occur, without it each
/// pair once.
std::uint64_t edge_set_sum(const LinkEdges& edges, bool swapped, const ReadTimes& read);

}  // namespace hopfeed
