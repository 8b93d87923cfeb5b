// See inspect_dataset.h.
#include "partition_tool/inspect_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/dataset/halo_files.h"
#include "partition_tool/hotness/presample.h"

namespace hopfeed {
namespace {

/// Whether a partition's folder holds the file in this folder of its own ("/nodes/").
bool has_folder(const std::string& path, const char* folder) {
  return path.starts_with("part-") && path.find(folder) == path.find('/');
}

/// Of a path that is no other kind of file of edges.
bool holds_attr(const std::string& path) {
  if (path.ends_with("/hotness.npy") || path.ends_with("/original_ids.npy") || has_folder(path, "/ids/"))
    return false;
  return has_folder(path, "/nodes/") || has_folder(path, "/edges/");
}

/// Share of all reads that go to the first `ratio` of the nodes in `counts`.
double share_of_first(const std::vector<std::int64_t>& counts, double ratio) {
  const auto first = static_cast<std::ptrdiff_t>(ratio * static_cast<double>(counts.size()));
  const std::int64_t hits = std::accumulate(counts.begin(), counts.begin() + first, std::int64_t{0});
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return all > 0 ? static_cast<double>(hits) / static_cast<double>(all) : 0.0;
}

/// The split "train", or all nodes where there is none.
std::vector<std::int64_t> training_nodes(const Dataset& dataset, int node_type) {
  if (dataset.meta().node_types[node_type].splits.contains("train")) {
    const auto ids = dataset.split(node_type, "train");
    return {ids.begin(), ids.end()};
  }
  std::vector<std::int64_t> all(dataset.num_nodes(node_type));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int64_t> nodes_of_partition(const Dataset& dataset, int node_type,
                                             const std::vector<std::int64_t>& nodes, int partition) {
  const std::vector<std::int64_t>& offsets = dataset.meta().node_types[node_type].partition_offsets;
  std::vector<std::int64_t> own;
  std::ranges::copy_if(nodes, std::back_inserter(own), [&](std::int64_t v) {
    const std::int64_t id = dataset.dataset_id(node_type, v);
    return id >= offsets[partition] && id < offsets[partition + 1];
  });
  return own;
}

/// `counts` are reads, in the order that hotness falls in.
HotnessCheck compare(std::span<const double> hotness, std::vector<std::int64_t> counts) {
  HotnessCheck check;
  check.rank_correlation = rank_correlation(hotness, std::vector<double>(counts.begin(), counts.end()));
  for (double ratio : kHitRatios) check.hit_rate.push_back(share_of_first(counts, ratio));
  std::sort(counts.begin(), counts.end(), std::greater<>());
  for (double ratio : kHitRatios) check.best.push_back(share_of_first(counts, ratio));
  return check;
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
    if (is_left_out_halo(dataset, path)) continue;
    const auto bytes = static_cast<std::int64_t>(file.bytes);
    sizes.total += bytes;
    if (is_halo_path(path))
      sizes.halos += bytes;
    else if (path.ends_with("/rows.npy"))
      sizes.rows += bytes;
    else if (path.ends_with("/indices.npy"))
      sizes.indices += bytes;
    else if (path.ends_with("/edge_ids.npy"))
      sizes.edge_ids += bytes;
    else if (is_derived_path(path) && !has_folder(path, "/ids/"))
      sizes.tables += bytes;
    else if (holds_attr(path))
      sizes.attrs += bytes;
    else
      sizes.other += bytes;
  }
  return sizes;
}

std::vector<HotnessCheck> check_hotness(const Dataset& dataset, int partition,
                                        const HotnessCheckOptions& options) {
  const DatasetMeta& meta = dataset.meta();
  const auto trained = std::ranges::find_if(
      meta.node_types, [](const NodeTypeMeta& type) { return type.splits.contains("train"); });
  const int seed_type =
      trained == meta.node_types.end() ? 0 : static_cast<int>(trained - meta.node_types.begin());
  const std::vector<std::int64_t> train = training_nodes(dataset, seed_type),
                                  own = nodes_of_partition(dataset, seed_type, train, partition);
  const std::vector<std::vector<std::int64_t>> counts = presample(dataset, own.empty() ? train : own,
                                                                  {.node_type = seed_type,
                                                                   .fanouts = meta.cut.fanouts,
                                                                   .batch_size = meta.cut.batch_size,
                                                                   .epochs = options.epochs,
                                                                   .seed = options.seed,
                                                                   .threads = options.threads});
  std::vector<HotnessCheck> checks;
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    const std::vector<std::int64_t>& offsets = meta.node_types[t].partition_offsets;
    checks.push_back(compare(dataset.hotness(t, partition), {counts[t].begin() + offsets[partition],
                                                             counts[t].begin() + offsets[partition + 1]}));
  }
  return checks;
}

}  // namespace hopfeed
