// See edges_to_csc.h. Each thread owns a range of destinations and reads the whole edge list in order, so the
// sort is stable with any number of threads and no counter is shared.
#include "partition_tool/edges_to_csc.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/parallel_ranges.h"
#include "partition_tool/graph_memory.h"

namespace hopfeed {
namespace {

template <class Id>
void check_ids(std::span<const Id> ids, std::int64_t num_nodes, const char* end,
               const EdgesToCscOptions& options) {
  parallel_ranges(options.threads, std::ssize(ids), [&](int, std::int64_t begin, std::int64_t stop) {
    for (std::int64_t e = begin; e < stop; ++e) {
      if (ids[e] >= 0 && ids[e] < num_nodes) continue;
      throw Error(ErrorCode::kInvalid, fmt::format("{}: edge {} has {} node {}, but there are {} nodes",
                                                   options.origin, e, end, ids[e], num_nodes));
    }
  });
}

template <class Dst>
std::vector<std::int64_t> count_rows(std::span<const Dst> destination, std::int64_t num_nodes, int threads) {
  std::vector<std::int64_t> indptr(num_nodes + 1);
  parallel_ranges(threads, num_nodes, [&](int, std::int64_t begin, std::int64_t end) {
    const auto width = static_cast<std::uint64_t>(end - begin);
    for (const Dst v : destination) {
      if (static_cast<std::uint64_t>(v - begin) < width) ++indptr[v + 1];
    }
  });
  std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
  return indptr;
}

/// Calls put(k, e) for the edges e of each row in the order of e; k is the edge's place.
template <class Dst, class Put>
void scatter(std::span<const Dst> destination, const std::vector<std::int64_t>& indptr, int threads,
             const Put& put) {
  parallel_ranges(threads, std::ssize(indptr) - 1, [&](int, std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> next(indptr.begin() + begin, indptr.begin() + end);
    const auto width = static_cast<std::uint64_t>(end - begin);
    for (std::int64_t e = 0; e < std::ssize(destination); ++e) {
      const auto row = static_cast<std::uint64_t>(destination[e] - begin);
      if (row < width) put(next[row]++, e);
    }
  });
}

}  // namespace

Csc edges_to_csc(const IdSpan& source, const IdSpan& destination, const EdgeEnds& ends,
                 const EdgesToCscOptions& options, const Progress& progress) {
  const std::int64_t num_edges = id_count(destination);
  if (num_edges > kMaxEdges)
    throw Error(ErrorCode::kInvalid, fmt::format("{}: {} edges are more than hopfeed takes ({})",
                                                 options.origin, num_edges, kMaxEdges));
  require_graph_memory({.num_nodes = ends.destinations,
                        .num_sources = ends.sources,
                        .held_edges = num_edges,
                        .stored_edge_ids = options.keep_edge_ids},
                       options.origin, "--no-edge-ids saves some, else use a machine with more");
  const auto report = [&](std::int64_t passes) {
    progress({"Sorting edges by destination", "edges", static_cast<std::uint64_t>(passes * num_edges),
              static_cast<std::uint64_t>(3 * num_edges)});
  };
  std::visit([&](auto ids) { check_ids(ids, ends.sources, "source", options); }, source);
  std::visit([&](auto ids) { check_ids(ids, ends.destinations, "destination", options); }, destination);
  report(1);
  Csc csc{.indptr = {},
          .indices = make_id_array(num_edges, ends.sources),
          .edge_id_kind = EdgeIds::kNone,
          .edge_ids = {}};
  csc.indptr =
      std::visit([&](auto ids) { return count_rows(ids, ends.destinations, options.threads); }, destination);
  report(2);
  const auto source_of = [](auto from, auto& rows) {
    return [from, &rows](std::int64_t at, std::int64_t e) {
      rows[at] = static_cast<std::decay_t<decltype(rows[0])>>(from[e]);
    };
  };
  if (!options.keep_edge_ids) {
    std::visit([&](auto from, auto to,
                   auto& rows) { scatter(to, csc.indptr, options.threads, source_of(from, rows)); },
               source, destination, csc.indices);
  } else {
    csc.edge_id_kind = EdgeIds::kStored;
    csc.edge_ids = make_id_array(num_edges, num_edges);
    std::visit(
        [&](auto from, auto to, auto& rows, auto& ids) {
          scatter(to, csc.indptr, options.threads,
                  [put = source_of(from, rows), &ids](std::int64_t at, std::int64_t e) {
                    put(at, e);
                    ids[at] = static_cast<std::decay_t<decltype(ids[0])>>(e);
                  });
        },
        source, destination, csc.indices, csc.edge_ids);
  }
  report(3);
  return csc;
}

}  // namespace hopfeed
