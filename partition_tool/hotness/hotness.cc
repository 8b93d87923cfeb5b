// See hotness.h. One hop is one pass over the rows: row u offers t(u) p(u) to each of its in-neighbours. Each
// thread owns a range of the nodes that are written and reads all rows, so that no two threads touch one
// value and no order changes.
#include "partition_tool/hotness/hotness.h"

#include <algorithm>
#include <functional>

#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

std::vector<double> seed_probability(const HotnessGraph& graph, std::int64_t batch_size) {
  std::vector<double> p(graph.num_nodes, graph.train.empty() ? 1.0 : 0.0);
  for (std::int64_t v : graph.train) p[v] = 1.0;
  const auto num_train = std::count(p.begin(), p.end(), 1.0);
  const double each =
      batch_size >= num_train ? 1.0 : static_cast<double>(batch_size) / static_cast<double>(num_train);
  for (double& value : p) value *= each;
  return p;
}

/// 1 - (1 - a)(1 - b), exact to the last bits also where both are small, and 1 where one of them is.
double either(double a, double b) { return a + b * (1 - a); }

/// What each destination offers to each of its in-neighbours: the share that is taken of them, times its own
/// probability.
void offer(const HotnessEdges& edges, std::int64_t fanout, const std::vector<double>& reached, int threads,
           std::vector<double>& offered) {
  offered.resize(std::ssize(edges.indptr) - 1);
  parallel_ranges(threads, std::ssize(offered), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      const std::int64_t degree = edges.indptr[u + 1] - edges.indptr[u];
      double taken = 1;
      if (fanout == 0) taken = 0;
      if (fanout > 0 && fanout < degree) taken = static_cast<double>(fanout) / static_cast<double>(degree);
      offered[u] = taken * reached[edges.first_dst + u];
    }
  });
}

/// reached[v] = either(reached[v], offered[u]) for each in-neighbour v of u, in the order of u.
/// `progress(edges)` hears how many were read.
void spread(const HotnessEdges& edges, const std::vector<double>& offered, int threads,
            const std::function<void(std::int64_t)>& progress, std::vector<double>& reached) {
  const auto offers = [&](std::int64_t u) { return offered[u] != 0; };
  const auto spread_block = [&](std::int64_t first, std::int64_t last, auto indices) {
    parallel_ranges(threads, std::ssize(reached), [&](int, std::int64_t begin, std::int64_t end) {
      const auto width = static_cast<std::uint64_t>(end - begin);
      for (std::int64_t u = first; u < last; ++u) {
        if (!offers(u)) continue;
        for (std::int64_t e = edges.indptr[u]; e < edges.indptr[u + 1]; ++e) {
          const std::int64_t v = edges.first_src + indices[e - edges.indptr[first]];
          if (static_cast<std::uint64_t>(v - begin) < width) reached[v] = either(reached[v], offered[u]);
        }
      }
    });
    progress(edges.indptr[last]);
  };
  for_row_blocks(edges.indptr, edges.indices, threads, offers, spread_block);
}

}  // namespace

std::vector<double> inclusion_probability(const HotnessGraph& graph, const HotnessOptions& options) {
  std::vector<double> reached = seed_probability(graph, options.batch_size);  // p_h
  std::vector<double> ever = reached;                                         // P so far
  std::vector<std::vector<double>> offered(graph.edges.size());               // t p_{h-1}
  std::int64_t done = 0, total = 0;
  for (const HotnessEdges& edges : graph.edges) total += edges.indptr.back();
  total *= std::ssize(options.fanouts);
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    for (std::size_t t = 0; t < offered.size(); ++t) {
      const std::vector<std::int64_t>& fanouts =
          graph.edges[t].fanouts.empty() ? options.fanouts : graph.edges[t].fanouts;
      offer(graph.edges[t], fanouts[hop], reached, options.threads, offered[t]);
    }
    reached.assign(graph.num_nodes, 0.0);
    for (std::size_t t = 0; t < offered.size(); ++t) {
      const auto progress = [&](std::int64_t read) {
        if (options.progress) options.progress(done + read, total);
      };
      spread(graph.edges[t], offered[t], options.threads, progress, reached);
      done += graph.edges[t].indptr.back();
    }
    for (std::int64_t v = 0; v < graph.num_nodes; ++v) ever[v] = either(ever[v], reached[v]);
  }
  return ever;
}

}  // namespace hopfeed
