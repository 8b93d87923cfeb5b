// See undirected_graph.h. Count both ends of every edge that is kept, fill, then sort each row and keep each
// neighbour once.
#include "partition_tool/undirected_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/parallel_ranges.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {
namespace {

using Degrees = std::vector<std::uint32_t>;

void require_edges_fit(std::int64_t count, const PartitionOptions& options) {
  if (count <= options.metis_limit) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("the symmetrised graph has {} directed edges, but METIS counts with 32 bits (at most "
                  "{}); use --method random or a lower --metis-degree",
                  count, options.metis_limit));
}

/// visit(v, u) for each edge u -> v of all types but loops, nodes numbered through.
template <class Visit>
void for_each_edge(const RawGraph& graph, const Visit& visit) {
  for (const RawEdges& type : graph.edges) {
    const std::vector<std::int64_t>& indptr = type.csc.indptr;
    const std::int64_t first_dst = graph.first_node(type.dst_type),
                       first_src = graph.first_node(type.src_type);
    for_row_blocks(
        indptr, type.csc.rows(), 1, [](std::int64_t) { return true; },
        [&](std::int64_t first, std::int64_t last, auto ids) {
          for (std::int64_t row = first; row < last; ++row) {
            const std::int64_t v = first_dst + row;
            for (std::int64_t e = indptr[row]; e < indptr[row + 1]; ++e) {
              const std::int64_t u = first_src + ids[e - indptr[first]];
              if (u != v) visit(static_cast<std::int32_t>(v), static_cast<std::int32_t>(u));
            }
          }
        });
  }
}

/// Ends of edges at each node, parallel ones counted each; at most 2^32 - 1.
Degrees count_degrees(const RawGraph& graph) {
  Degrees degrees(graph.num_nodes());
  const auto count = [&](std::int32_t v) {
    if (degrees[v] < std::numeric_limits<std::uint32_t>::max()) ++degrees[v];
  };
  for_each_edge(graph, [&](std::int32_t v, std::int32_t u) {
    count(v);
    count(u);
  });
  return degrees;
}

/// Which edges are kept, and what they weigh.
class Thinning {
 public:
  Thinning(const Degrees& degrees, const PartitionOptions& options)
      : degrees_(degrees),
        keep_(static_cast<std::uint64_t>(options.metis_degree)),
        key_(node_stream({.purpose = Purpose::kPartition, .seed = options.seed, .epoch = 1}).key) {}

  bool keeps(std::int32_t v, std::int32_t u) const {
    const std::uint64_t least = std::min(degrees_[v], degrees_[u]);
    return keep_ == 0 || least <= keep_ || draw(v, u) * least < keep_ << 32;
  }
  /// Edges that one of {v, u} stands for.
  std::int64_t weight(std::int64_t v, std::int32_t u) const {
    const std::uint64_t least = std::min(degrees_[v], degrees_[u]);
    return keep_ == 0 || least <= keep_ ? 1 : static_cast<std::int64_t>((least + keep_ / 2) / keep_);
  }

 private:
  /// 32 bits for the pair, the same in both directions (the finaliser of SplitMix64; Steele et al., OOPSLA
  /// 2014).
  std::uint64_t draw(std::int32_t v, std::int32_t u) const {
    const auto [low, high] = std::minmax(v, u);
    std::uint64_t z = key_ + (static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high));
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (z ^ z >> 31) >> 32;
  }
  const Degrees& degrees_;
  std::uint64_t keep_, key_;
};

/// Sorts each row, counts repeats, then closes the gaps.
void sort_and_weigh(const std::vector<std::int64_t>& begin, const Thinning& thinning, std::int64_t num_edges,
                    const PartitionOptions& options, UndirectedGraph& graph) {
  const std::int64_t num_nodes = std::ssize(begin) - 1;
  std::vector<std::int32_t> degree(num_nodes);
  graph.weights.resize(graph.neighbours.size());
  const std::int64_t unit = 1 + 2 * num_edges / (1 << 30);  // METIS adds all weights up in 32 bits
  parallel_ranges(options.threads, num_nodes, [&](int, std::int64_t first, std::int64_t last) {
    for (std::int64_t v = first; v < last; ++v) {
      std::int32_t* const row = graph.neighbours.data();
      std::sort(row + begin[v], row + begin[v + 1]);
      std::int64_t out = begin[v];
      for (std::int64_t at = begin[v], next; at < begin[v + 1]; at = next) {
        const std::int32_t u = row[at];
        for (next = at + 1; next < begin[v + 1] && row[next] == u;) ++next;
        const std::int64_t weight = (next - at) * thinning.weight(v, u) / unit;
        row[out] = u;
        graph.weights[out++] = static_cast<std::int32_t>(std::clamp<std::int64_t>(weight, 1, 1 << 30));
      }
      degree[v] = static_cast<std::int32_t>(out - begin[v]);
    }
  });
  const std::int64_t total = std::accumulate(degree.begin(), degree.end(), std::int64_t{0});
  require_edges_fit(total, options);
  graph.offsets.assign(num_nodes + 1, 0);
  for (std::int64_t v = 0; v < num_nodes; ++v) {
    std::copy_n(graph.neighbours.begin() + begin[v], degree[v], graph.neighbours.begin() + graph.offsets[v]);
    std::copy_n(graph.weights.begin() + begin[v], degree[v], graph.weights.begin() + graph.offsets[v]);
    graph.offsets[v + 1] = graph.offsets[v] + degree[v];
  }
  graph.neighbours.resize(total);
  graph.weights.resize(total);
}

/// How many edges have the lower degree m at their ends; the last entry stands for all above.
constexpr std::int64_t kDegreesTold = 1 << 16;
std::vector<std::int64_t> edges_by_lower_degree(const RawGraph& graph) {
  const Degrees degrees = count_degrees(graph);
  std::vector<std::int64_t> edges(kDegreesTold);
  for_each_edge(graph, [&](std::int32_t v, std::int32_t u) {
    ++edges[std::min<std::int64_t>(std::min(degrees[v], degrees[u]), kDegreesTold - 1)];
  });
  return edges;
}

/// Edges that are left on average at a degree, both directions and parallel ones counted each.
std::int64_t kept_edges(const std::vector<std::int64_t>& by_lower_degree, std::int64_t degree) {
  std::int64_t kept = 0;
  for (std::int64_t m = 1; m < kDegreesTold; ++m)
    kept += m <= degree ? by_lower_degree[m] : by_lower_degree[m] * degree / m;
  return 2 * kept;
}

}  // namespace

// Measured with 4 parts, 0.3 to 2.4 million nodes and 4 to 115 million directed edges: 47 to 69 bytes an
// edge, more the larger the graph is, beside 100 a node.
std::uint64_t metis_bytes(std::int64_t num_nodes, std::int64_t directed_edges) {
  return static_cast<std::uint64_t>(num_nodes) * 100 + static_cast<std::uint64_t>(directed_edges) * 80;
}

void require_metis_nodes(std::int64_t num_nodes, const PartitionOptions& options) {
  if (num_nodes <= options.metis_limit) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("METIS counts nodes with 32 bits, at most {}, and the graph has "
                          "{}; use --method random",
                          options.metis_limit, num_nodes));
}

MetisFit fit_metis(const RawGraph& graph, const PartitionOptions& options, std::uint64_t available) {
  require_metis_nodes(graph.num_nodes(), options);
  const std::vector<std::int64_t> edges = edges_by_lower_degree(graph);
  const auto bytes = [&](std::int64_t degree) {
    return metis_bytes(graph.num_nodes(), kept_edges(edges, degree));
  };
  const auto fits = [&](std::int64_t degree) {
    return bytes(degree) <= available && kept_edges(edges, degree) <= options.metis_limit;
  };
  const std::uint64_t whole = bytes(kDegreesTold);
  if (fits(kDegreesTold)) return {.degree = 0, .whole_bytes = whole};
  if (!fits(1))
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("METIS needs {} of memory even for one neighbour of each node, {} are available; use "
                    "--method random or a machine with more",
                    format_bytes(bytes(1)), format_bytes(available)));
  std::int64_t low = 1, high = kDegreesTold;  // low fits, high does not
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return {.degree = low, .whole_bytes = whole};
}

UndirectedGraph symmetrise(const RawGraph& graph, const PartitionOptions& options) {
  require_metis_nodes(graph.num_nodes(), options);
  const Degrees degrees = count_degrees(graph);
  const Thinning thinning(degrees, options);
  std::vector<std::int64_t> begin(graph.num_nodes() + 1);
  for_each_edge(graph, [&](std::int32_t v, std::int32_t u) {
    if (!thinning.keeps(v, u)) return;
    ++begin[v + 1];
    ++begin[u + 1];
  });
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
  UndirectedGraph undirected;
  undirected.neighbours.resize(begin.back());
  for_each_edge(graph, [&](std::int32_t v, std::int32_t u) {
    if (!thinning.keeps(v, u)) return;
    undirected.neighbours[next[v]++] = u;
    undirected.neighbours[next[u]++] = v;
  });
  next = {};
  sort_and_weigh(begin, thinning, graph.num_edges(), options, undirected);
  return undirected;
}

}  // namespace hopfeed
