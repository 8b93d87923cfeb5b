// Tests of tools that change edges share this: typed test graphs as datasets of any cut, and their edges read
// back one by one.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "partition_tool/read_dataset.h"
#include "tests/partition_tool/typed_raw_graph.h"
#include "tests/support/dataset_files.h"

namespace hopfeed::testing {

using Ints = std::vector<std::int64_t>;

struct Edge {
  std::int64_t source, destination, id, time;  // original node ids; time 0 where there is none
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// Returns the edges by destination, each row in its order.
inline std::vector<Edge> edges_of(const Dataset& dataset, int type) {
  const CscView csc = dataset.csc(type);
  const auto& attrs = dataset.meta().edge_types[type].attrs;
  const bool timed = find_attr(attrs, "time") != nullptr;
  const auto at = [](const void* ids, ElementType width, std::int64_t i) {
    return width == ElementType::kInt32 ? static_cast<const std::int32_t*>(ids)[i]
                                        : static_cast<const std::int64_t*>(ids)[i];
  };
  std::vector<Edge> edges;
  for (std::size_t p = 0; p < csc.parts.size(); ++p) {
    const CscPart& part = csc.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      for (std::int64_t e = part.rows[row].offset; e < part.rows[row + 1].offset; ++e) {
        const std::int64_t time =
            timed ? at(dataset.edge_attr(type, "time").parts[p], ElementType::kInt64, e) : 0;
        edges.push_back({.source = dataset.original_id(csc.src_type, at(part.indices, csc.index_type, e)),
                         .destination = part.rows[row].original_id,
                         .id = csc.has_edge_ids ? at(part.edge_ids, csc.edge_id_type, e) : -1,
                         .time = time});
      }
    }
  }
  std::ranges::stable_sort(edges, {}, &Edge::destination);
  return edges;
}

/// Returns {source, destination} of the links of a split that are labelled 1, or of all.
inline std::vector<std::pair<std::int64_t, std::int64_t>> links_of(const Dataset& dataset, int type,
                                                                   const std::string& split,
                                                                   std::int64_t label = 1) {
  const LinkSplit links = dataset.edge_split(type, split);
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < links.count(); ++i)
    if (links.labels.empty() ? label == 1 : links.labels[i] == label)
      pairs.emplace_back(links.pairs[2 * i], links.pairs[2 * i + 1]);
  return pairs;
}

inline std::string complaint_of(const std::function<void()>& action, ErrorCode code = ErrorCode::kInvalid) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

/// Makes users that buy items, often several times, and the reverse; the time of an edge is its id, so that
/// it can be told again anywhere.
inline TypedGraph shop_graph(std::int64_t users, std::int64_t items, std::int64_t edges, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TypedGraph graph{
      .nodes = {{.name = "user", .count = users}, {.name = "item", .count = items}},
      .edges = {{.src = "user", .rel = "buys", .dst = "item"},
                {.src = "item", .rel = "rev_buys", .dst = "user", .rev_of = "user__buys__item"}}};
  for (std::int64_t e = 0; e < edges; ++e) {
    const auto user = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(users)),
               item = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(items));
    graph.edges[0].sources.push_back(user);
    graph.edges[0].destinations.push_back(item);
    graph.edges[0].weight.push_back(1 + static_cast<double>(random() % 9));
    graph.edges[0].time.push_back(e);
  }
  graph.edges[1].sources = graph.edges[0].destinations;
  graph.edges[1].destinations = graph.edges[0].sources;
  graph.edges[1].time = graph.edges[0].time;
  return graph;
}

}  // namespace hopfeed::testing
