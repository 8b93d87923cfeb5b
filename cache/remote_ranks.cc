// See remote_ranks.h.
#include "cache/remote_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
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

/// Buckets of about two rows each, were they spread evenly. They are not: of each partition the first are
/// ranked, so that a bucket there is as full as it is wide.
constexpr std::int64_t kRowsPerBucket = 2;

[[noreturn]] void refuse_entry(const Dataset& dataset, const NodeTypeMeta& node, int reader,
                               std::int64_t entry, std::int64_t row) {
  corrupt_file(
      dataset.folder() / remote_rows_path(reader, node),
      fmt::format("entry {} is row {}, which is no row or stands twice; run hopfeed-partition verify", entry,
                  row));
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

// Counts the rows of each bucket, puts each row into its own, and orders those.
void RemoteRanks::take_stored(const Dataset& dataset, int node_type, int reader, OfType& type) {
  const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(node_type)];
  const RankedRows ranked = dataset.remote_rows(node_type, reader);
  while ((node.count >> type.shift) * kRowsPerBucket > ranked.count && type.shift < 32) ++type.shift;
  const std::int64_t mask = (std::int64_t{1} << type.shift) - 1;
  type.buckets.assign(static_cast<std::size_t>((node.count >> type.shift) + 2), 0);
  for (std::int64_t i = 0; i < ranked.count; ++i) {
    if (ranked[i] < 0 || ranked[i] >= node.count) refuse_entry(dataset, node, reader, i, ranked[i]);
    ++type.buckets[static_cast<std::size_t>(ranked[i] >> type.shift)];
  }
  std::exclusive_scan(type.buckets.begin(), type.buckets.end(), type.buckets.begin(), std::uint32_t{0});
  type.rows.resize(static_cast<std::size_t>(ranked.count));
  for (std::int64_t i = ranked.count; i-- > 0;)
    type.rows[type.buckets[static_cast<std::size_t>(ranked[i] >> type.shift)]++] = {
        .low = static_cast<std::uint32_t>(ranked[i] & mask), .rank = static_cast<std::uint32_t>(i)};
  // Each count is now that of the bucket behind it.
  std::shift_right(type.buckets.begin(), type.buckets.end(), 1);
  type.buckets.front() = 0;
  for (std::size_t b = 0; b + 1 < type.buckets.size(); ++b) {
    const std::span<RankOfRow> rows(type.rows.data() + type.buckets[b],
                                    type.buckets[b + 1] - type.buckets[b]);
    std::ranges::sort(rows, [](const RankOfRow& x, const RankOfRow& y) {
      return x.low != y.low ? x.low < y.low : x.rank < y.rank;
    });
    const auto twice = std::ranges::adjacent_find(rows, {}, &RankOfRow::low);
    if (twice != rows.end())
      refuse_entry(dataset, node, reader, (twice + 1)->rank,
                   (static_cast<std::int64_t>(b) << type.shift) + twice->low);
  }
}

RemoteRanks::RemoteRanks(const Dataset& dataset, int reader) {
  require_partition(dataset, reader, "the reader's partition");
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(t)];
    OfType& type = types_.emplace_back();
    type.stored = !node.remote_rows.empty();
    if (type.stored) {
      type.ranked = node.remote_rows[static_cast<std::size_t>(reader)];
      require_ranks(type.ranked);
      take_stored(dataset, t, reader, type);
      continue;
    }
    const auto p = static_cast<std::size_t>(reader);
    type.ranked = node.count - (node.partition_offsets[p + 1] - node.partition_offsets[p]);
    require_ranks(type.ranked);
    type.all.assign(static_cast<std::size_t>(node.count), RemoteRanksView::kUnranked);
    std::uint32_t rank = 0;
    for (const std::int64_t row : owners_order(node.partition_offsets, reader))
      type.all[static_cast<std::size_t>(row)] = rank++;
  }
}

RowHeats RemoteRanksView::heats(std::int64_t rows) const {
  if (!all_.empty()) return RowHeats::of_each(rows, [this](std::int64_t row) { return heat(row); });
  RowHeats heats(rows);
  heats.add(0, kColdest);
  for (std::size_t b = 0; b + 1 < buckets_.size(); ++b)
    for (std::size_t i = buckets_[b]; i < buckets_[b + 1]; ++i) {
      const std::int64_t row = static_cast<std::int64_t>(b) << shift_ | rows_[i].low;
      heats.add(row, heat(row));
      heats.add(row + 1, kColdest);
    }
  heats.end();
  return heats;
}

std::vector<CachedAttr> reader_attrs(const Dataset& dataset, std::vector<CachedAttr> attrs, int reader) {
  const RemoteRanks ranks(dataset, reader);
  for (CachedAttr& attr : attrs)
    if (attr.what.store == Store::kNode) attr.heat = ranks.view(attr.what.type).heats(attr.rows);
  return attrs;
}

}  // namespace hopfeed
