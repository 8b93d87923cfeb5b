// See bench_seeds.h.
#include "bench/core/bench_seeds.h"

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "core/seeds/link_fields.h"
#include "core/seeds/node_fields.h"

namespace hopfeed::bench {
namespace {

constexpr std::int64_t kMostLinks = 1 << 20;

/// Source and destination of an edge by its position in the dataset's order.
void add_ends(const Dataset& dataset, const CscView& csc, std::int64_t position,
              std::vector<std::int64_t>& pairs) {
  std::size_t p = csc.parts.size() - 1;
  while (csc.parts[p].first_edge > position) --p;
  const CscPart& part = csc.parts[p];
  const std::int64_t at = position - part.first_edge;
  const RowRecord* next =
      std::upper_bound(part.rows, part.rows + part.num_rows, at,
                       [](std::int64_t edge, const RowRecord& row) { return edge < row.offset; });
  const std::int64_t source = csc.index_type == ElementType::kInt32
                                  ? static_cast<const std::int32_t*>(part.indices)[at]
                                  : static_cast<const std::int64_t*>(part.indices)[at];
  pairs.push_back(dataset.original_id(csc.src_type, source));
  pairs.push_back((next - 1)->original_id);
}

std::vector<std::int64_t> random_edges(const Dataset& dataset, int edge_type) {
  const CscView csc = dataset.csc(edge_type);
  require_valid(csc.num_edges > 0, "the graph has no edges that could be links");
  std::mt19937_64 random(1);
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i < std::min(csc.num_edges, kMostLinks); ++i)
    add_ends(dataset, csc, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(csc.num_edges)),
             pairs);
  return pairs;
}

}  // namespace

BenchSeeds::BenchSeeds(const Dataset& dataset, const BatchOptions& batch, bool shuffle)
    : dataset_(dataset), batch_(batch) {
  if (batch.link.on()) {
    const int type = dataset.meta().edge_type(batch.link.edge_type);
    pairs_ = random_edges(dataset, type);
    links_.emplace(pairs_, LinkListOptions{.edge_type = type, .shuffle = shuffle});
  } else {
    nodes_.emplace(dataset.split(0, "train"), NodeListOptions{.shuffle = shuffle});
  }
}

std::unique_ptr<SeedFields> BenchSeeds::fields() const {
  if (links_) return std::make_unique<LinkFields>(dataset_, *links_, batch_);
  return std::make_unique<NodeFields>(dataset_, *nodes_, batch_);
}

BatchMaker BenchSeeds::maker() const {
  return links_ ? BatchMaker(dataset_, *links_, batch_) : BatchMaker(dataset_, *nodes_, batch_);
}

}  // namespace hopfeed::bench
