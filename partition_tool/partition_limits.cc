// See partition_limits.h.
#include "partition_tool/partition_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kMaxOrderedRow = (std::int64_t{1} << 32) - 1;  // row_order.h
constexpr std::int64_t kMaxRankedRows = std::numeric_limits<std::uint32_t>::max() - std::int64_t{1};

}  // namespace

void require_enough_parts(const std::string& node_type, std::int64_t count, std::int64_t parts) {
  const std::int64_t needed = (count + kMaxPartitionRows - 1) / kMaxPartitionRows;
  if (parts >= needed) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("--parts is {}, and {} nodes of type '{}' take {} at least: a partition numbers its "
                  "rows by 4 bytes, so it has fewer than 2^32",
                  parts, count, node_type, needed));
}

void require_rows_fit(const std::string& node_type, std::span<const std::int64_t> rows) {
  for (std::size_t p = 0; p < rows.size(); ++p)
    if (rows[p] > kMaxPartitionRows)
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format(
              "partition {} would have {} nodes of type '{}': its rows are numbered by 4 bytes, so it "
              "has fewer than 2^32; give more --parts than {}",
              p, rows[p], node_type, rows.size()));
}

void require_rows_fit(const RawGraph& graph, std::span<const std::int32_t> partition_of, int parts) {
  for (int t = 0; t < static_cast<int>(graph.nodes.size()); ++t) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(parts));
    for (std::int64_t v = graph.first_node(t); v < graph.first_node(t + 1); ++v)
      ++rows[static_cast<std::size_t>(partition_of[static_cast<std::size_t>(v)])];
    require_rows_fit(graph.nodes[static_cast<std::size_t>(t)].name, rows);
  }
}

std::int64_t ranked_rows(std::int64_t read, std::int64_t own) {
  return std::min({read, kRemoteRowsPerOwn * own, kMaxRankedRows});
}

std::vector<std::string> limits_ahead(const std::string& node_type, std::span<const std::int64_t> rows) {
  std::vector<std::string> lines;
  const std::int64_t count = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (count > kMaxBatchNodes)
    lines.push_back(
        fmt::format("'{}' has {} nodes, and a batch has at most {}", node_type, count, kMaxBatchNodes));
  for (std::size_t p = 0; p < rows.size(); ++p) {
    if (std::min(count - rows[p], kRemoteRowsPerOwn * rows[p]) <= kMaxRankedRows) continue;
    lines.push_back(
        fmt::format("partition {} ranks {} rows of '{}' at others at most: what is behind them is never "
                    "held; give more --parts",
                    p, kMaxRankedRows, node_type));
    break;  // one line, whatever the number of partitions
  }
  return lines;
}

void require_row_length(std::int64_t node, std::int64_t degree, const RowTables& tables) {
  const bool weighted = !tables.weights.empty(), timed = !tables.times.empty();
  if (!weighted && !timed && !tables.by_id) return;
  const std::int64_t most = weighted ? kMaxWeightedDegree : kMaxOrderedRow;
  if (degree <= most) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("node {} has {} in-edges; with {} a node has at most {}", node, degree,
                          weighted ? "the weight '" + tables.weights[0] + "'"
                          : timed  ? "the time '" + tables.times[0] + "'"
                                   : "the order of source ids (--by-id)",
                          most));
}

}  // namespace hopfeed
