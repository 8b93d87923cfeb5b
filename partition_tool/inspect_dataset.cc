// See inspect_dataset.h.
#include "partition_tool/inspect_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "cache/presample.h"
#include "core/error.h"

namespace hopfeed {
namespace {

/// Share of all reads that go to the first `ratio` of the nodes in `counts`.
double share_of_first(const std::vector<std::int64_t>& counts, double ratio) {
  const auto first = static_cast<std::ptrdiff_t>(ratio * static_cast<double>(counts.size()));
  const std::int64_t hits = std::accumulate(counts.begin(), counts.begin() + first, std::int64_t{0});
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return all > 0 ? static_cast<double>(hits) / static_cast<double>(all) : 0.0;
}

/// Made of weights and times of edges.
bool is_table(const std::string& path) {
  if (path.find("/edges/") == std::string::npos) return false;
  const auto is_in = [&](const char* folder) { return path.find(folder) != std::string::npos; };
  return is_in("/alias/") || is_in("/time_order/") || is_in("/times/");
}

}  // namespace

DegreeSummary summarise_degrees(const Dataset& dataset, int edge_type) {
  const CscView view = dataset.csc(edge_type);
  std::vector<std::int64_t> degrees;
  degrees.reserve(view.num_dst_nodes);
  for (std::size_t p = 0; p < view.parts.size(); ++p) {
    const CscPart& part = view.parts[p];
    for (std::int64_t row = 0; row < part.num_rows; ++row) {
      degrees.push_back(part.rows[row + 1].offset - part.rows[row].offset);
      if (degrees.back() < 0) {
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("{}: row {} ends before it begins",
                                (dataset.folder() /
                                 rows_path(static_cast<int>(p), dataset.meta().edge_types[edge_type]))
                                    .string(),
                                row));
      }
    }
  }
  if (degrees.empty()) return {};
  const auto middle = degrees.begin() + (std::ssize(degrees) - 1) / 2;
  std::nth_element(degrees.begin(), middle, degrees.end());
  const std::int64_t median = *middle;
  const auto [min, max] = std::minmax_element(degrees.begin(), degrees.end());
  return {.min = *min,
          .median = median,
          .max = *max,
          .mean = static_cast<double>(view.num_edges) / static_cast<double>(degrees.size())};
}

SizeSummary summarise_sizes(const Dataset& dataset) {
  SizeSummary sizes;
  for (const auto& [path, file] : dataset.meta().files) {
    const auto bytes = static_cast<std::int64_t>(file.bytes);
    sizes.total += bytes;
    if (path.ends_with("/rows.npy"))
      sizes.rows += bytes;
    else if (path.ends_with("/indices.npy"))
      sizes.indices += bytes;
    else if (path.ends_with("/edge_ids.npy"))
      sizes.edge_ids += bytes;
    else if (is_table(path))
      sizes.tables += bytes;
    else if (path.starts_with("part-") && !path.ends_with("/hotness.npy") &&
             !path.ends_with("/original_ids.npy"))
      sizes.attrs += bytes;
    else
      sizes.other += bytes;
  }
  return sizes;
}

HotnessCheck check_hotness(const Dataset& dataset, int partition, const HotnessCheckOptions& options) {
  const NodeTypeMeta& node = dataset.meta().node_types[0];
  const std::int64_t begin = node.partition_offsets[partition], end = node.partition_offsets[partition + 1];
  std::vector<std::int64_t> train, own;
  if (node.splits.contains("train")) {
    const auto ids = dataset.split(0, "train");
    train.assign(ids.begin(), ids.end());
  } else {
    train.resize(node.count);
    std::iota(train.begin(), train.end(), 0);
  }
  std::copy_if(train.begin(), train.end(), std::back_inserter(own), [&](std::int64_t v) {
    const std::int64_t id = dataset.dataset_id(0, v);
    return id >= begin && id < end;
  });
  const CutMeta& cut = dataset.meta().cut;
  std::vector<std::int64_t> counts = presample(dataset, own.empty() ? train : own,
                                               {.fanouts = cut.fanouts,
                                                .batch_size = cut.batch_size,
                                                .epochs = options.epochs,
                                                .seed = options.seed,
                                                .threads = options.threads});
  counts = std::vector<std::int64_t>(counts.begin() + begin, counts.begin() + end);
  HotnessCheck check;
  check.rank_correlation =
      rank_correlation(dataset.hotness(0, partition), std::vector<double>(counts.begin(), counts.end()));
  for (double ratio : kHitRatios) check.hit_rate.push_back(share_of_first(counts, ratio));
  std::sort(counts.begin(), counts.end(), std::greater<>());
  for (double ratio : kHitRatios) check.best.push_back(share_of_first(counts, ratio));
  return check;
}

}  // namespace hopfeed
