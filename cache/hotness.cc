// See hotness.h. One hop is one pass over the rows: row u offers t(u) p(u) to each of its in-neighbours. Each thread owns a
// range of the nodes that are written and reads all rows, so that no two threads touch one value and no order changes.
#include "cache/hotness.h"

#include <algorithm>

#include "cache/parallel_ranges.h"

namespace hopfeed {
namespace {

std::vector<double> seed_probability(const HotnessGraph& graph, std::int64_t num_nodes,
                                     std::int64_t batch_size) {
  std::vector<double> p(num_nodes, graph.train.empty() ? 1.0 : 0.0);
  for (std::int64_t v : graph.train) p[v] = 1.0;
  const auto num_train = std::count(p.begin(), p.end(), 1.0);
  const double each =
      batch_size >= num_train ? 1.0 : static_cast<double>(batch_size) / static_cast<double>(num_train);
  for (double& value : p) value *= each;
  return p;
}

/// 1 - (1 - a)(1 - b), exact to the last bits also where both are small, and 1 where one of them is.
double either(double a, double b) { return a + b * (1 - a); }

/// reached[v] = either(reached[v], offered[u]) for each in-neighbour v of u, in the order of u.
void spread(const HotnessGraph& graph, const std::vector<double>& offered, const HotnessOptions& options,
            std::int64_t hop, std::vector<double>& reached) {
  const auto offers = [&](std::int64_t u) { return offered[u] != 0; };
  const auto spread_block = [&](std::int64_t first, std::int64_t last, auto indices) {
    parallel_ranges(options.threads, std::ssize(reached), [&](int, std::int64_t begin, std::int64_t end) {
      const auto width = static_cast<std::uint64_t>(end - begin);
      for (std::int64_t u = first; u < last; ++u) {
        if (!offers(u)) continue;
        for (std::int64_t e = graph.indptr[u]; e < graph.indptr[u + 1]; ++e) {
          const std::int64_t v = indices[e - graph.indptr[first]];
          if (static_cast<std::uint64_t>(v - begin) < width) reached[v] = either(reached[v], offered[u]);
        }
      }
    });
    if (options.progress)
      options.progress(hop * graph.indptr.back() + graph.indptr[last],
                       std::ssize(options.fanouts) * graph.indptr.back());
  };
  for_row_blocks(graph.indptr, graph.indices, options.threads, offers, spread_block);
}

}  // namespace

std::vector<double> inclusion_probability(const HotnessGraph& graph, const HotnessOptions& options) {
  const std::int64_t num_nodes = std::ssize(graph.indptr) - 1;
  std::vector<double> reached = seed_probability(graph, num_nodes, options.batch_size);  // p_h
  std::vector<double> ever = reached, offered(num_nodes);  // P so far, t p_{h-1}
  for (std::int64_t hop = 0; hop < std::ssize(options.fanouts); ++hop) {
    const std::int64_t fanout = options.fanouts[hop];
    parallel_ranges(options.threads, num_nodes, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t u = begin; u < end; ++u) {
        const std::int64_t degree = graph.indptr[u + 1] - graph.indptr[u];
        const double taken =
            fanout < 0 || fanout >= degree ? 1.0 : static_cast<double>(fanout) / static_cast<double>(degree);
        offered[u] = taken * reached[u];
      }
    });
    reached.assign(num_nodes, 0.0);
    spread(graph, offered, options, hop, reached);
    for (std::int64_t v = 0; v < num_nodes; ++v) ever[v] = either(ever[v], reached[v]);
  }
  return ever;
}

}  // namespace hopfeed
