// See pagerank.h. Each thread owns a range of the nodes that are written and reads all rows, as in
// hotness.cc.
#include "cache/pagerank.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "cache/neighbour_rows.h"
#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

using EdgesRead = std::function<void(std::int64_t done, std::int64_t total)>;

std::vector<double> restarts_of(const HotnessGraph& graph) {
  std::vector<double> s(graph.num_nodes, graph.train.empty() ? 1.0 : 0.0);
  for (const std::int64_t v : graph.train) s[v] = 1.0;
  const auto count = static_cast<double>(std::count(s.begin(), s.end(), 1.0));
  for (double& value : s) value /= std::max(count, 1.0);
  return s;
}

std::vector<std::int64_t> in_degrees(const HotnessGraph& graph) {
  std::vector<std::int64_t> degree(graph.num_nodes);
  for (const HotnessEdges& edges : graph.edges)
    for (std::int64_t u = 0; u + 1 < std::ssize(edges.indptr); ++u)
      degree[edges.first_dst + u] += edges.indptr[u + 1] - edges.indptr[u];
  return degree;
}

std::int64_t count_edges(const HotnessGraph& graph) {
  std::int64_t sum = 0;
  for (const HotnessEdges& edges : graph.edges) sum += edges.indptr.back();
  return sum;
}

/// out[v] += offered[u] for each in-neighbour v of u, in the order of the rows. `done`: edges read before.
void add_to_neighbours(const HotnessGraph& graph, const std::vector<double>& offered, int threads,
                       std::int64_t& done, std::int64_t total, const EdgesRead& progress,
                       std::vector<double>& out) {
  for (const HotnessEdges& edges : graph.edges) {
    const auto offers = [&](std::int64_t u) { return offered[edges.first_dst + u] != 0; };
    const auto add_block = [&](std::int64_t first, std::int64_t last, auto indices) {
      parallel_ranges(threads, std::ssize(out), [&](int, std::int64_t begin, std::int64_t end) {
        const auto width = static_cast<std::uint64_t>(end - begin);
        for (std::int64_t u = first; u < last; ++u) {
          if (!offers(u)) continue;
          const double share = offered[edges.first_dst + u];
          for (std::int64_t e = edges.indptr[u]; e < edges.indptr[u + 1]; ++e) {
            const std::int64_t v = edges.first_src + indices[e - edges.indptr[first]];
            if (static_cast<std::uint64_t>(v - begin) < width) out[v] += share;
          }
        }
      });
      if (progress) progress(done + edges.indptr[last], total);
    };
    for_row_blocks(edges.indptr, edges.indices, threads, offers, add_block);
    done += edges.indptr.back();
  }
}

}  // namespace

std::vector<double> reverse_pagerank(const HotnessGraph& graph, const PagerankOptions& options) {
  const std::vector<double> restart = restarts_of(graph);
  const std::vector<std::int64_t> degree = in_degrees(graph);
  const std::int64_t total = count_edges(graph) * options.rounds;
  std::vector<double> rank = restart, offered(graph.num_nodes), next(graph.num_nodes);
  std::int64_t done = 0;
  for (int round = 0; round < options.rounds; ++round) {
    double lost = 0;
    for (std::int64_t u = 0; u < graph.num_nodes; ++u) {
      offered[u] = degree[u] > 0 ? rank[u] / static_cast<double>(degree[u]) : 0.0;
      if (degree[u] == 0) lost += rank[u];
    }
    std::fill(next.begin(), next.end(), 0.0);
    add_to_neighbours(graph, offered, options.threads, done, total, options.progress, next);
    for (std::int64_t v = 0; v < graph.num_nodes; ++v)
      rank[v] = (1 - options.damping) * restart[v] + options.damping * (next[v] + lost * restart[v]);
  }
  return rank;
}

std::vector<double> out_degrees(const HotnessGraph& graph, int threads, const EdgesRead& progress) {
  const std::vector<double> ones(graph.num_nodes, 1.0);
  std::vector<double> degree(graph.num_nodes);
  std::int64_t done = 0;
  add_to_neighbours(graph, ones, threads, done, count_edges(graph), progress, degree);
  return degree;
}

}  // namespace hopfeed
