// See array_place.h.
#include "core/dataset/array_place.h"

#include "core/dataset/id_ranges.h"

namespace hopfeed {
namespace {

/// `path` gives the file of a partition's range.
template <class Path>
ArrayPlace place_in_shards(const DatasetMeta& meta, std::int64_t count, std::int64_t entry,
                           const Path& path) {
  const IdRanges ranges{.count = count, .partitions = meta.partitions};
  const int p = ranges.owner(entry);
  return {.file = path(p), .entry = entry - ranges.begin(p)};
}

}  // namespace

ArrayPlace place_of_new_id(const DatasetMeta& meta, const NodeTypeMeta& node, std::int64_t original_id) {
  if (!meta.sharded_ids) return {.file = new_ids_path(node), .entry = original_id};
  return place_in_shards(meta, node.count, original_id, [&](int p) { return new_ids_shard_path(p, node); });
}

ArrayPlace place_in_split(const DatasetMeta& meta, const NodeTypeMeta& node, const std::string& split,
                          std::int64_t entry) {
  if (!meta.sharded_ids) return {.file = split_path(node, split), .entry = entry};
  return place_in_shards(meta, node.splits.at(split), entry,
                         [&](int p) { return split_shard_path(p, node, split); });
}

ArrayPlace place_of_link(const DatasetMeta& meta, const EdgeTypeMeta& edge, const std::string& split,
                         std::int64_t link) {
  if (!meta.sharded_ids) return {.file = link_pairs_path(edge, split), .entry = link};
  return place_in_shards(meta, edge.splits.at(split), link,
                         [&](int p) { return link_pairs_shard_path(p, edge, split); });
}

}  // namespace hopfeed
