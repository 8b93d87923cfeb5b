// See sharded_ids.h.
#include "tests/support/sharded_ids.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/id_at.h"
#include "core/dataset/id_ranges.h"
#include "core/dataset/npy.h"

namespace hopfeed::testing {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

class Sharding {
 public:
  Sharding(const fs::path& folder, const Dataset& dataset)
      : folder_(folder), dataset_(dataset), meta_(dataset.meta()) {}

  DatasetMeta run() {
    meta_.sharded_ids = true;
    for (int t = 0; t < dataset_.num_node_types(); ++t) {
      NodeTypeMeta& node = meta_.node_types[static_cast<std::size_t>(t)];
      for (int p = 0; p < meta_.partitions; ++p) shard_nodes(t, p, node);
      drop(new_ids_path(node));
      drop(all_original_ids_path(node));
      for (const auto& [name, count] : node.splits) drop(split_path(node, name));
    }
    for (int e = 0; e < dataset_.num_edge_types(); ++e) shard_links(e);
    return meta_;
  }

 private:
  void write(const std::string& relative, const Ints& numbers, const std::vector<std::int64_t>& shape,
             ElementType type) {
    fs::create_directories((folder_ / relative).parent_path());
    NpyWriter::Result result{};
    if (type == ElementType::kInt32) {
      const std::vector<std::int32_t> narrow(numbers.begin(), numbers.end());
      result = write_npy(folder_ / relative, std::span<const std::int32_t>(narrow), shape);
    } else {
      result = write_npy(folder_ / relative, std::span<const std::int64_t>(numbers), shape);
    }
    meta_.files[relative] = {.bytes = result.bytes, .xxh3 = result.xxh3};
  }
  void drop(const std::string& relative) {
    if (meta_.files.erase(relative) > 0) removed_.push_back(folder_ / relative);
  }

  /// The sources, of node type t, of all rows of a part.
  std::set<std::int64_t> sources(int t, int part) const {
    std::set<std::int64_t> ids;
    for (int e = 0; e < dataset_.num_edge_types(); ++e) {
      if (dataset_.csc(e).src_type != t) continue;
      const EdgeTypeMeta& edge = dataset_.meta().edge_types[static_cast<std::size_t>(e)];
      const NpyArray indices(dataset_.folder() / indices_path(part, edge), HugePages::kNever);
      for (std::int64_t i = 0; i < indices.header().count(); ++i)
        ids.insert(id_at(indices.bytes().data(), edge.index_type, i));
    }
    return ids;
  }

  void write_remote(int t, int part, const std::set<std::int64_t>& ids, const NodeTypeMeta& node) {
    Ints entries, buckets{0};
    const std::int64_t count = std::ssize(ids), num = num_id_buckets(count);
    for (const std::int64_t id : ids) entries.insert(entries.end(), {id, dataset_.original_id(t, id)});
    const unsigned __int128 exact = (static_cast<unsigned __int128>(num) << 64) /
                                    static_cast<unsigned __int128>(std::max<std::int64_t>(node.count, 1));
    const auto scale = static_cast<std::uint64_t>(std::min<unsigned __int128>(exact, UINT64_MAX));
    for (std::int64_t b = 1; b <= num; ++b)
      buckets.push_back(std::ranges::count_if(ids, [&](std::int64_t id) {
        return static_cast<std::int64_t>(static_cast<unsigned __int128>(id) * scale >> 64) < b;
      }));
    write(remote_ids_path(part, node), entries, {count, 2}, node.new_id_type);
    write(id_buckets_path(part, node), buckets, {num + 1}, ElementType::kInt64);
  }

  void shard_nodes(int t, int p, NodeTypeMeta& node) {
    Ints ids;
    const IdRanges range{.count = node.count, .partitions = meta_.partitions};
    for (std::int64_t v = range.begin(p); v < range.begin(p + 1); ++v)
      ids.push_back(dataset_.dataset_id(t, v));
    write(new_ids_shard_path(p, node), ids, {std::ssize(ids)}, node.new_id_type);
    const auto own = [&](std::int64_t id) {
      return id >= node.partition_offsets[p] && id < node.partition_offsets[p + 1];
    };
    std::set<std::int64_t> remote = sources(t, p);
    std::erase_if(remote, own);
    write_remote(t, p, remote, node);
    node.remote_sources.push_back(std::ssize(remote));
    if (!node.halo_nodes.empty()) {
      std::set<std::int64_t> further = sources(t, halo_of(p));
      std::erase_if(further, [&](std::int64_t id) { return own(id) || remote.contains(id); });
      write_remote(t, halo_of(p), further, node);
      node.halo_sources.push_back(std::ssize(further));
      drop(halo_places_path(p, node));
    }
    for (const auto& [name, count] : node.splits) {
      Ints entries;
      const IdRanges entry_range{.count = count, .partitions = meta_.partitions};
      const auto split = dataset_.split(t, name);
      for (std::int64_t i = entry_range.begin(p); i < entry_range.begin(p + 1); ++i) {
        const std::int64_t v = split[static_cast<std::size_t>(i)];
        entries.insert(entries.end(), {v, dataset_.dataset_id(t, v)});
      }
      write(split_shard_path(p, node, name), entries, {std::ssize(entries) / 2, 2}, ElementType::kInt64);
    }
  }

  void shard_links(int e) {
    EdgeTypeMeta& edge = meta_.edge_types[static_cast<std::size_t>(e)];
    const CscView csc = dataset_.csc(e);
    for (const auto& [name, count] : edge.splits) {
      const LinkSplit links = dataset_.edge_split(e, name);
      if (!links.labels.empty()) edge.smallest_labels[name] = *std::ranges::min_element(links.labels);
      const IdRanges range{.count = count, .partitions = meta_.partitions};
      for (int p = 0; p < meta_.partitions; ++p) {
        Ints pairs, labels, times;
        for (auto i = static_cast<std::size_t>(range.begin(p));
             i < static_cast<std::size_t>(range.begin(p + 1)); ++i) {
          const std::int64_t u = links.pairs[2 * i], v = links.pairs[2 * i + 1];
          pairs.insert(pairs.end(),
                       {u, v, dataset_.dataset_id(csc.src_type, u), dataset_.dataset_id(csc.dst_type, v)});
          if (!links.labels.empty()) labels.push_back(links.labels[i]);
          if (!links.times.empty()) times.push_back(links.times[i]);
        }
        const std::int64_t size = range.size(p);
        write(link_pairs_shard_path(p, edge, name), pairs, {size, 4}, ElementType::kInt64);
        if (!links.labels.empty())
          write(link_labels_shard_path(p, edge, name), labels, {size}, ElementType::kInt64);
        if (!links.times.empty())
          write(link_times_shard_path(p, edge, name), times, {size}, ElementType::kInt64);
      }
      drop(link_pairs_path(edge, name));
      drop(link_labels_path(edge, name));
      drop(link_times_path(edge, name));
    }
  }

  const fs::path folder_;
  const Dataset& dataset_;
  DatasetMeta meta_;

 public:
  std::vector<fs::path> removed_;
};

}  // namespace

void shard_ids(const fs::path& folder) {
  DatasetMeta meta;
  std::vector<fs::path> removed;
  {
    const Dataset dataset(folder, {.huge_pages = HugePages::kNever});
    Sharding sharding(folder, dataset);
    meta = sharding.run();
    removed = sharding.removed_;
  }
  for (const fs::path& file : removed) fs::remove(file);
  std::ofstream(folder / "meta.json") << format_meta(meta);
}

}  // namespace hopfeed::testing
