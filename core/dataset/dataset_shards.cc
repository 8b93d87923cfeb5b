// See dataset.h: ids and splits, of which each partition has a range where ids are sharded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/dataset/array_shape.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/dataset.h"
#include "core/dataset/id_at.h"
#include "core/dataset/id_ranges.h"

namespace hopfeed {
// ---- opening

void Dataset::open_ids(int node_type) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  NodeFiles& files = nodes_[node_type];
  if (meta_.sharded_ids) {
    files.split_shards.resize(node.splits.size());
    for (std::size_t s = 0; s < node.splits.size(); ++s) files.joined.push_back(std::make_unique<Joined>());
    for (int p = 0; p < meta_.partitions; ++p) open_id_shards(node_type, p);
    for (const int p : halos_) open_remote_ids(node_type, halo_of(p), node.halo_sources[p]);
    return;
  }
  files.new_ids = open_array(new_ids_path(node));
  files.new_ids.require_descr(npy_descr(node.new_id_type));
  require_shape(files.new_ids, {node.count});
  if (meta_.files.contains(all_original_ids_path(node))) {
    files.all_original_ids = open_array(all_original_ids_path(node));
    files.all_original_ids.require_descr(npy_descr(node.new_id_type));
    require_shape(files.all_original_ids, {node.count});
  }
  for (const auto& [name, count] : node.splits) {
    files.splits.push_back(open_array(split_path(node, name)));
    files.splits.back().require_descr(npy_descr(ElementType::kInt64));
    require_shape(files.splits.back(), {count});
  }
}

void Dataset::open_id_shards(int node_type, int p) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  NodeFiles& files = nodes_[node_type];
  if (!has_partition(p)) {  // keeps its place in every list
    files.new_ids_shards.emplace_back();
    files.remote_ids.emplace_back();
    for (std::vector<NpyArray>& shards : files.split_shards) shards.emplace_back();
    return;
  }
  files.new_ids_shards.push_back(open_array(new_ids_shard_path(p, node)));
  files.new_ids_shards.back().require_descr(npy_descr(node.new_id_type));
  require_shape(files.new_ids_shards.back(),
                {IdRanges{.count = node.count, .partitions = meta_.partitions}.size(p)});
  open_remote_ids(node_type, p, node.remote_sources[p]);
  std::size_t s = 0;
  for (const auto& [name, count] : node.splits) {
    NpyArray shard = open_array(split_shard_path(p, node, name));
    shard.require_descr(npy_descr(ElementType::kInt64));
    require_shape(shard, {IdRanges{.count = count, .partitions = meta_.partitions}.size(p), 2});
    files.split_shards[s++].push_back(std::move(shard));
  }
}

// `part`: a partition, or a halo, as the path functions take it.
void Dataset::open_remote_ids(int node_type, int part, std::int64_t count) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  RemoteIdFiles& files = nodes_[node_type].remote_ids.emplace_back();
  files.entries = open_array(remote_ids_path(part, node));
  files.entries.require_descr(npy_descr(node.new_id_type));
  require_shape(files.entries, {count, 2});
  files.buckets = open_array(id_buckets_path(part, node));
  files.buckets.require_descr(npy_descr(ElementType::kInt64));
  require_shape(files.buckets, {num_id_buckets(count) + 1});
  files.ids = {.entries = files.entries.bytes().data(),
               .type = node.new_id_type,
               .count = count,
               .scale = id_bucket_scale(node.count, num_id_buckets(count)),
               .buckets = files.buckets.as<std::int64_t>()};
}

void Dataset::open_link_shards(int edge_type) {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const auto open = [&](const std::string& relative, const std::vector<std::int64_t>& shape) {
    NpyArray array = open_array(relative);
    array.require_descr(npy_descr(ElementType::kInt64));
    require_shape(array, shape);
    return array;
  };
  for (const auto& [name, count] : edge.splits) {
    LinkShards& files = edges_[edge_type].split_shards.emplace_back();
    for (int p = 0; p < meta_.partitions; ++p) {
      LinkFiles& shard = files.shards.emplace_back();
      if (!has_partition(p)) continue;
      const std::int64_t links = IdRanges{.count = count, .partitions = meta_.partitions}.size(p);
      shard.pairs = open(link_pairs_shard_path(p, edge, name), {links, 4});
      // All partitions have them, or none.
      if (meta_.has_labels(edge, name)) shard.labels = open(link_labels_shard_path(p, edge, name), {links});
      if (meta_.has_times(edge, name)) shard.times = open(link_times_shard_path(p, edge, name), {links});
    }
  }
}

// Once the rows are open, which mostly name them.
void Dataset::find_own_ids(int node_type) {
  const std::vector<std::int64_t>& offsets = meta_.node_types[node_type].partition_offsets;
  for (int p = 0; p < meta_.partitions; ++p)
    if (has_partition(p)) nodes_[node_type].own_ids.push_back({offsets[p], original_ids(node_type, p)});
}

// ---- ids

void Dataset::find_dataset_ids(int node_type, std::span<const std::int64_t> original_ids,
                               std::span<std::int64_t> out) const {
  if (!meta_.sharded_ids) return dataset_ids(node_type, original_ids, out);
  const NodeTypeMeta& node = meta_.node_types[node_type];
  const IdRanges ranges{.count = node.count, .partitions = meta_.partitions};
  const std::size_t width = element_bytes(node.new_id_type);
  struct Place {
    const NpyArray* shard;  // null: not here
    std::int64_t at;
  };
  const auto place_of = [&](std::int64_t original_id) -> Place {
    const int p = ranges.owner(original_id);
    if (!has_partition(p)) return {nullptr, 0};
    return {&nodes_[node_type].new_ids_shards[static_cast<std::size_t>(p)], original_id - ranges.begin(p)};
  };
  for (const std::int64_t original_id : original_ids) {  // checked first, so that all can be under way
    check_original_id(node_type, original_id);
    if (const Place place = place_of(original_id); place.shard)
      prefetch_line(place.shard->bytes().data() + static_cast<std::size_t>(place.at) * width);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Place place = place_of(original_ids[i]);
    out[i] = place.shard ? id_at(place.shard->bytes().data(), node.new_id_type, place.at) : -1;
    if (place.shard && (out[i] < 0 || out[i] >= node.count))
      corrupt_file(place.shard->path(), fmt::format("entry {} is {}, out of range", place.at, out[i]));
  }
}

void Dataset::check_original_id(int node_type, std::int64_t original_id) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  if (original_id >= 0 && original_id < node.count) return;
  throw Error(ErrorCode::kInvalid, fmt::format("node {} is out of range: node type '{}' of {} has {} nodes",
                                               original_id, node.name, folder_.string(), node.count));
}

// Some nodes at a time: first the places of those whose rows are here and the buckets of the others, then the
// others' entries, then what lies there. So each waits for memory once, and all of them together.
void Dataset::find_original_ids(int node_type, std::span<const std::int64_t> dataset_ids,
                                std::int64_t* out) const {
  if (has_all_ids()) return original_ids(node_type, dataset_ids, out);
  if (meta_.node_types[node_type].new_id_type == ElementType::kInt32)
    find_in_lists<std::int32_t>(nodes_[node_type], dataset_ids, out);
  else
    find_in_lists<std::int64_t>(nodes_[node_type], dataset_ids, out);
}

template <class Id>
void Dataset::find_in_lists(const NodeFiles& files, std::span<const std::int64_t> dataset_ids,
                            std::int64_t* out) const {
  constexpr std::size_t kTogether = 128;
  std::array<const std::int64_t*, kTogether> own;
  std::array<std::size_t, kTogether> own_at, remote_at;
  for (std::size_t begin = 0; begin < dataset_ids.size(); begin += kTogether) {
    const std::size_t end = std::min(begin + kTogether, dataset_ids.size());
    std::size_t num_own = 0, num_remote = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t* const place = own_place(files, dataset_ids[i]);
      own[num_own] = place, own_at[num_own] = i, remote_at[num_remote] = i;
      num_own += place != nullptr, num_remote += place == nullptr;  // without a jump: it is a coin's toss
    }
    const std::span<const std::size_t> remote{remote_at.data(), num_remote};
    for (const RemoteIdFiles& list : files.remote_ids)
      for (const std::size_t i : list.ids.count > 0 ? remote : remote.first(0))
        list.ids.prefetch_bucket(dataset_ids[i]);
    for (std::size_t i = 0; i < num_own; ++i) prefetch_line(own[i]);
    for (const RemoteIdFiles& list : files.remote_ids)
      for (const std::size_t i : list.ids.count > 0 ? remote : remote.first(0))
        list.ids.prefetch_entry<Id>(dataset_ids[i]);
    for (std::size_t i = 0; i < num_own; ++i) out[own_at[i]] = *own[i];
    for (const std::size_t i : remote) {
      std::int64_t at = -1;
      for (std::size_t l = 0; at < 0 && l < files.remote_ids.size(); ++l)
        if (at = files.remote_ids[l].ids.find_in<Id>(dataset_ids[i]); at >= 0)
          out[i] = files.remote_ids[l].ids.original_id(at);
      if (at < 0) out[i] = -1;
    }
  }
}

void Dataset::refuse_unknown_id(int node_type, const char* kind, std::int64_t id) const {
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{} id {} of node type '{}' is not known on this machine: ids of {} are sharded, and "
                  "{} of {} partitions are here; do it where all are",
                  kind, id, meta_.node_types[node_type].name, folder_.string(), partitions().size(),
                  meta_.partitions));
}

// ---- splits

SplitShard Dataset::split_shard(int node_type, const std::string& name, int partition) const {
  const std::size_t split = split_number(node_type, name);
  return {.ids = numbers_or_none(nodes_[node_type].split_shards[split][static_cast<std::size_t>(partition)])};
}

LinkShard Dataset::link_shard(int edge_type, const std::string& name, int partition) const {
  const LinkShards& split = edges_[edge_type].split_shards[edge_split_number(edge_type, name)];
  const LinkFiles& shard = split.shards[static_cast<std::size_t>(partition)];
  return {.pairs = numbers_or_none(shard.pairs),
          .labels = numbers_or_none(shard.labels),
          .times = numbers_or_none(shard.times)};
}

void Dataset::require_joinable(const std::string& split) const {
  if (whole_) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("split '{}' as one list reads all partitions, since ids of {} are sharded, and {} of "
                  "{} are on this machine; do it where all are",
                  split, folder_.string(), partitions().size(), meta_.partitions));
}

std::span<const std::int64_t> Dataset::joined_split(int node_type, std::size_t split) const {
  require_joinable(
      std::next(meta_.node_types[node_type].splits.begin(), static_cast<std::ptrdiff_t>(split))->first);
  Joined& joined = *nodes_[node_type].joined[split];
  std::call_once(joined.once, [&] {
    std::vector<std::int64_t> numbers;  // joined once all is there, or not at all
    for (const NpyArray& shard : nodes_[node_type].split_shards[split]) {
      const std::span<const std::int64_t> entries = shard.as<std::int64_t>();
      for (std::size_t i = 0; i < entries.size(); i += 2) numbers.push_back(entries[i]);
    }
    joined.numbers = std::move(numbers);
  });
  return joined.numbers;
}

LinkSplit Dataset::joined_links(int edge_type, std::size_t split) const {
  require_joinable(
      std::next(meta_.edge_types[edge_type].splits.begin(), static_cast<std::ptrdiff_t>(split))->first);
  const LinkShards& files = edges_[edge_type].split_shards[split];
  Joined& joined = *files.joined;
  std::call_once(joined.once, [&] {
    std::vector<std::int64_t> numbers, all_labels, all_times;
    for (const LinkFiles& shard : files.shards) {
      const std::span<const std::int64_t> pairs = numbers_or_none(shard.pairs),
                                          labels = numbers_or_none(shard.labels),
                                          times = numbers_or_none(shard.times);
      for (std::size_t i = 0; i < pairs.size(); i += 4)
        numbers.insert(numbers.end(), {pairs[i], pairs[i + 1]});
      all_labels.insert(all_labels.end(), labels.begin(), labels.end());
      all_times.insert(all_times.end(), times.begin(), times.end());
    }
    joined.numbers = std::move(numbers);
    joined.labels = std::move(all_labels);
    joined.times = std::move(all_times);
  });
  return {.pairs = joined.numbers,
          .labels = joined.labels,
          .times = joined.times,
          .path = files.shards.front().pairs.path()};
}

}  // namespace hopfeed
