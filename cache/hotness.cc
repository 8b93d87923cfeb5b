// See hotness.h. One hop is one pass over the rows: row u adds log(1 - t(u) p(u)) to each of its
// in-neighbours. Each thread owns a range of the nodes that are added to and reads all rows, so that no two
// threads touch one sum and no order changes.
#include "cache/hotness.h"

#include <algorithm>
#include <cmath>

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

/// missed[v] += weight[u] for each in-neighbour v of u, in the order of u.
template <class Id>
void spread(std::span<const std::int64_t> indptr, std::span<const Id> indices,
            const std::vector<double>& weight, int threads, std::vector<double>& missed) {
  parallel_ranges(threads, std::ssize(missed), [&](int, std::int64_t begin, std::int64_t end) {
    const auto width = static_cast<std::uint64_t>(end - begin);
    for (std::int64_t u = 0; u < std::ssize(weight); ++u) {
      if (weight[u] == 0) continue;
      for (std::int64_t e = indptr[u]; e < indptr[u + 1]; ++e) {
        if (static_cast<std::uint64_t>(indices[e] - begin) < width) missed[indices[e]] += weight[u];
      }
    }
  });
}

}  // namespace

std::vector<double> inclusion_probability(const HotnessGraph& graph, const HotnessOptions& options) {
  const std::int64_t num_nodes = std::ssize(graph.indptr) - 1;
  std::vector<double> reached = seed_probability(graph, num_nodes, options.batch_size);  // p_{h-1}
  std::vector<double> never(num_nodes), weight(num_nodes), missed;  // logs of 1 - P, 1 - t p, 1 - p_h
  // log1p(-1) is -infinity and stays so under further sums; -expm1 of it is 1 again.
  for (std::int64_t v = 0; v < num_nodes; ++v) never[v] = std::log1p(-reached[v]);
  for (std::int64_t fanout : options.fanouts) {
    parallel_ranges(options.threads, num_nodes, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t u = begin; u < end; ++u) {
        const std::int64_t degree = graph.indptr[u + 1] - graph.indptr[u];
        const double taken =
            fanout < 0 || fanout >= degree ? 1.0 : static_cast<double>(fanout) / static_cast<double>(degree);
        weight[u] = std::log1p(-taken * reached[u]);
      }
    });
    missed.assign(num_nodes, 0.0);
    std::visit([&](auto indices) { spread(graph.indptr, indices, weight, options.threads, missed); },
               graph.indices);
    for (std::int64_t v = 0; v < num_nodes; ++v) {
      never[v] += missed[v];
      reached[v] = -std::expm1(missed[v]);
    }
  }
  for (double& value : never) value = -std::expm1(value);
  return never;
}

}  // namespace hopfeed
