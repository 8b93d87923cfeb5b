// See dataset.h: which partitions of it are on this machine, and who answers for the others.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

void Dataset::choose_partitions() {
  const auto count = static_cast<std::size_t>(meta_.partitions);
  here_.assign(count, true);
  if (!options_.some_partitions) {
    std::error_code unknown;
    for (int p = 0; p < meta_.partitions; ++p)
      if (meta_.partitions > 1 && !std::filesystem::exists(folder_ / part_folder(p), unknown))
        throw Error(
            ErrorCode::kNotFound,
            fmt::format(
                "{} of {} is not on this machine: push it here (hopfeed-partition push), or, to sample, "
                "name the machines that have it ({})",
                part_folder(p), folder_.string(), marked("peers")));
    return;
  }
  here_.assign(count, false);
  for (const int p : options_.partitions) {
    if (p < 0 || p >= meta_.partitions)
      throw Error(ErrorCode::kInvalid, fmt::format("there is no partition {}: {} has {}, from 0 to {}", p,
                                                   folder_.string(), count, count - 1));
    here_[static_cast<std::size_t>(p)] = true;
  }
  std::error_code error;
  if (options_.partitions.empty())
    for (int p = 0; p < meta_.partitions; ++p)
      here_[static_cast<std::size_t>(p)] = std::filesystem::is_directory(folder_ / part_folder(p), error);
  if (std::ranges::count(here_, 1) == 0)
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} has no folder of a partition ({}); push one there (hopfeed-partition push)",
                            folder_.string(), part_folder(0)));
  whole_ = std::ranges::count(here_, 0) == 0;
  if (!whole_ && meta_.has_halos()) halos_ = partitions();
  std::erase_if(halos_, [&](int p) {  // who has no room for one leaves its folder out
    return !std::filesystem::is_directory(folder_ / part_folder(halo_of(p)), error);
  });
  here_.resize(count + halos_.size(), true);
  for (const NodeTypeMeta& node : meta_.node_types)
    for (std::size_t p = 0; p < count && !whole_; ++p)
      if (node.partition_offsets[p + 1] - node.partition_offsets[p] > INT64_C(0xFFFFFFFF) ||
          (!node.halo_nodes.empty() && node.halo_nodes[p] > INT64_C(0xFFFFFFFF)))
        throw Error(ErrorCode::kUnsupported, fmt::format("partition {} of {}, or its halo, has 2^32 nodes of "
                                                         "type '{}' or more, too many for machines to ask "
                                                         "each other by 4 bytes; cut it into more",
                                                         p, folder_.string(), node.name));
  if (!whole_ && !meta_.can_be_shared_out())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} was cut by an earlier release, without the original ids of all nodes that a "
                            "machine with some of its partitions needs; cut it again (hopfeed-partition "
                            "partition)",
                            folder_.string()));
}

std::vector<int> Dataset::partitions() const {
  std::vector<int> list;
  for (int p = 0; p < meta_.partitions; ++p)
    if (has_partition(p)) list.push_back(p);
  return list;
}

void Dataset::require_whole(const std::string& what) const {
  if (whole_) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{} reads the whole graph, and {} of {} partitions are on this machine; do it where "
                  "all are",
                  what, partitions().size(), meta_.partitions));
}

std::int64_t Dataset::halo_id(int node_type, std::int64_t dataset_id) const {
  const NodeFiles& files = nodes_[node_type];
  // A halo has the remote sources of its partition, in their order.
  for (std::size_t h = 0; meta_.sharded_ids && h < halos_.size(); ++h)
    if (const std::int64_t at = files.remote_ids[static_cast<std::size_t>(halos_[h])].ids.find(dataset_id);
        at >= 0)
      return files.offsets[static_cast<std::size_t>(meta_.partitions) + h] + at;
  const auto at = static_cast<std::size_t>(dataset_id) / 64, bit = static_cast<std::size_t>(dataset_id) % 64;
  for (std::size_t h = 0; h < files.halo_places.size(); ++h) {
    const NpyArray& array = files.halo_places[h];  // its type and size were checked when it was opened
    const HaloPlace& place = reinterpret_cast<const HaloPlace*>(array.bytes().data())[at];
    if ((place.nodes >> bit & 1) == 0) continue;
    const std::size_t part = static_cast<std::size_t>(meta_.partitions) + h;
    const std::int64_t count = files.offsets[part + 1] - files.offsets[part],
                       within = std::popcount(place.nodes & ((std::uint64_t{1} << bit) - 1));
    if (place.before < 0 || place.before >= count - within)
      corrupt_file(array.path(), fmt::format("entry {} leads behind the {} copies; push it again, or remove "
                                             "the halo's folder",
                                             at, count));
    return files.offsets[part] + place.before + within;
  }
  return -1;
}

PartitionPeers& Dataset::require_peers(int partition) const {
  if (peers_) return *peers_;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("partition {} of {} is not on this machine, and nobody is named who has it; name the "
                  "machines that serve the others ({})",
                  partition, folder_.string(), marked("peers")));
}

}  // namespace hopfeed
