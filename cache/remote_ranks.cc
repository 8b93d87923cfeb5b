// See remote_ranks.h.
#include "cache/remote_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {
namespace {

/// Throws kUnsupported where a rank would not fit.
void require_ranks(std::int64_t count) {
  if (count >= RemoteRanksView::kUnranked)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{} rows of other partitions are ranked, at most {} can be; cut the graph into more "
                    "partitions",
                    count, RemoteRanksView::kUnranked - 1));
}

void take_stored(const Dataset& dataset, int type, int reader, std::vector<std::uint32_t>& ranks) {
  const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(type)];
  const RankedRows ranked = dataset.remote_rows(type, reader);
  for (std::int64_t i = 0; i < ranked.count; ++i) {
    const std::int64_t row = ranked[i];
    if (row < 0 || row >= node.count || ranks[static_cast<std::size_t>(row)] != RemoteRanksView::kUnranked)
      corrupt_file(
          dataset.folder() / remote_rows_path(reader, node),
          fmt::format("entry {} is row {}, which is no row or stands twice; run hopfeed-partition verify", i,
                      row));
    ranks[static_cast<std::size_t>(row)] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace

void require_partition(const Dataset& dataset, std::int64_t partition, const char* option) {
  const int partitions = dataset.meta().partitions;
  require_valid(
      partition >= 0 && partition < partitions,
      fmt::format("{} is {}; {} has {} partition{}, choose 0 to {}", option, partition,
                  dataset.folder().string(), partitions, partitions == 1 ? "" : "s", partitions - 1));
}

std::vector<std::int64_t> owners_order(std::span<const std::int64_t> partition_offsets, int reader) {
  struct Row {
    double behind = 0;
    std::int64_t id = 0;
  };
  std::vector<Row> rows;
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p) {
    if (std::cmp_equal(p, reader)) continue;
    const std::int64_t begin = partition_offsets[p], end = partition_offsets[p + 1];
    for (std::int64_t id = begin; id < end; ++id)
      rows.push_back(
          {.behind = static_cast<double>(id - begin + 1) / static_cast<double>(end - begin), .id = id});
  }
  std::ranges::stable_sort(rows, {}, &Row::behind);
  std::vector<std::int64_t> order(rows.size());
  std::ranges::transform(rows, order.begin(), &Row::id);
  return order;
}

RemoteRanks::RemoteRanks(const Dataset& dataset, int reader) {
  require_partition(dataset, reader, "the reader's partition");
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(t)];
    OfType& type = types_.emplace_back();
    type.ranks.assign(static_cast<std::size_t>(node.count), RemoteRanksView::kUnranked);
    type.stored = !node.remote_rows.empty();
    if (type.stored) {
      type.ranked = node.remote_rows[static_cast<std::size_t>(reader)];
      require_ranks(type.ranked);
      take_stored(dataset, t, reader, type.ranks);
      continue;
    }
    const auto p = static_cast<std::size_t>(reader);
    type.ranked = node.count - (node.partition_offsets[p + 1] - node.partition_offsets[p]);
    require_ranks(type.ranked);
    std::uint32_t rank = 0;
    for (const std::int64_t row : owners_order(node.partition_offsets, reader))
      type.ranks[static_cast<std::size_t>(row)] = rank++;
  }
}

std::vector<CachedAttr> reader_attrs(const Dataset& dataset, std::vector<CachedAttr> attrs, int reader) {
  const auto ranks = std::make_shared<const RemoteRanks>(dataset, reader);
  for (CachedAttr& attr : attrs) {
    if (attr.what.store != Store::kNode) continue;
    attr.heat = [ranks, view = ranks->view(attr.what.type)](std::int64_t row) { return view.heat(row); };
  }
  return attrs;
}

}  // namespace hopfeed
