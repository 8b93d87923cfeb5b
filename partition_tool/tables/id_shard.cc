// See id_shard.h.
#include "partition_tool/tables/id_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/id_at.h"
#include "core/dataset/id_ranges.h"
#include "core/dataset/npy.h"
#include "core/dataset/remote_id_files.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/shard_folder.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = std::int64_t{1} << 18;  // entries that are made before they are written

class IdShard {
 public:
  IdShard(const DatasetMeta& draft, int partition, std::span<const fs::path> shards, const fs::path& folder)
      : draft_(draft), p_(partition), shards_(shards), out_(folder, draft) {}

  void run() {
    for (std::size_t t = 0; t < draft_.node_types.size(); ++t) {
      write_new_ids(draft_.node_types[t]);
      write_sources(static_cast<int>(t));
      for (const auto& [name, count] : draft_.node_types[t].splits)
        write_split(draft_.node_types[t], name, count);
    }
    for (const EdgeTypeMeta& edge : draft_.edge_types)
      for (const auto& [name, count] : edge.splits) write_links(edge, name, count);
    out_.commit({});
  }

 private:
  IdRanges ranges(std::int64_t count) const { return {.count = count, .partitions = draft_.partitions}; }

  bool is_there(const std::string& relative) const {
    return std::ranges::any_of(shards_, [&](const fs::path& shard) { return fs::exists(shard / relative); });
  }
  NpyArray open(const std::string& relative) const {
    for (const fs::path& shard : shards_)
      if (fs::exists(shard / relative)) return NpyArray(shard / relative, HugePages::kNever);
    throw Error(ErrorCode::kNotFound, "no shard has the array " + relative);
  }
  /// An array of ids by which something is looked up; each must be below `limit`.
  static std::int64_t id_of(const NpyArray& array, ElementType type, std::int64_t at, std::int64_t limit) {
    const std::int64_t id = id_at(array.bytes().data(), type, at);
    if (id < 0 || id >= limit)
      corrupt_file(
          array.path(),
          fmt::format("entry {} is {}, out of range; remove its shard, and it is made again", at, id));
    return id;
  }

  /// Writes numbers(i) for each i of [begin, end), `width` each, as int32 or int64.
  template <class Numbers>
  void write(const std::string& relative, ElementType type, std::int64_t begin, std::int64_t end,
             std::int64_t width, const Numbers& numbers) {
    NpyWriter file = out_.open(relative, npy_descr(type),
                               width == 1 ? std::vector{end - begin} : std::vector{end - begin, width});
    std::vector<std::int64_t> block;
    std::vector<std::int32_t> narrow;
    for (std::int64_t first = begin; first < end; first += kBlock) {
      block.clear();
      for (std::int64_t i = first; i < std::min(first + kBlock, end); ++i) numbers(i, block);
      narrow.assign(block.begin(), block.end());
      type == ElementType::kInt32 ? file.write<std::int32_t>(narrow) : file.write<std::int64_t>(block);
    }
    out_.close(relative, std::move(file));
  }

  void write_new_ids(const NodeTypeMeta& node) {
    const NpyArray all = open(new_ids_path(node));
    const IdRanges range = ranges(node.count);
    write(new_ids_shard_path(p_, node), node.new_id_type, range.begin(p_), range.begin(p_ + 1), 1,
          [&](std::int64_t original, std::vector<std::int64_t>& block) {
            block.push_back(id_of(all, node.new_id_type, original, node.count));
          });
  }

  void write_sources(int node_type) {
    const NodeTypeMeta& node = node_type_of(draft_, node_type);
    const auto p = static_cast<std::size_t>(p_);
    NodeBits sources(node.count);
    for (const EdgeTypeMeta& edge : draft_.edge_types) {
      if (draft_.edge_src_type(edge) != node_type) continue;
      const NpyArray indices = open(indices_path(p_, edge));
      const std::int64_t edges = indices.header().count();
      for (std::int64_t i = 0; i < edges; ++i) id_of(indices, edge.index_type, i, node.count);
      sources.add(indices.bytes().data(), edge.index_type, edges);
    }
    sources.remove(node.partition_offsets[p], node.partition_offsets[p + 1]);
    const NpyArray originals = open(all_original_ids_path(node));
    write_remote_ids(out_, p_, node, sources,
                     [&](std::int64_t id) { return id_of(originals, node.new_id_type, id, node.count); });
  }

  void write_split(const NodeTypeMeta& node, const std::string& name, std::int64_t count) {
    const NpyArray split = open(split_path(node, name)), new_ids = open(new_ids_path(node));
    const IdRanges range = ranges(count);
    write(split_shard_path(p_, node, name), ElementType::kInt64, range.begin(p_), range.begin(p_ + 1), 2,
          [&](std::int64_t i, std::vector<std::int64_t>& block) {
            const std::int64_t original = id_of(split, ElementType::kInt64, i, node.count);
            block.insert(block.end(), {original, id_of(new_ids, node.new_id_type, original, node.count)});
          });
  }

  void write_links(const EdgeTypeMeta& edge, const std::string& name, std::int64_t count) {
    const IdRanges range = ranges(count);
    const std::int64_t begin = range.begin(p_), end = range.begin(p_ + 1);
    const NpyArray pairs = open(link_pairs_path(edge, name));
    const NodeTypeMeta& src = draft_.node_types[static_cast<std::size_t>(draft_.edge_src_type(edge))];
    const NodeTypeMeta& dst = draft_.node_types[static_cast<std::size_t>(draft_.edge_dst_type(edge))];
    const NpyArray new_sources = open(new_ids_path(src)), new_destinations = open(new_ids_path(dst));
    write(link_pairs_shard_path(p_, edge, name), ElementType::kInt64, begin, end, 4,
          [&](std::int64_t i, std::vector<std::int64_t>& block) {
            const std::int64_t source = id_of(pairs, ElementType::kInt64, 2 * i, src.count),
                               destination = id_of(pairs, ElementType::kInt64, 2 * i + 1, dst.count);
            block.insert(block.end(),
                         {source, destination, id_of(new_sources, src.new_id_type, source, src.count),
                          id_of(new_destinations, dst.new_id_type, destination, dst.count)});
          });
    if (!is_there(link_labels_path(edge, name))) return;
    const NpyArray labels = open(link_labels_path(edge, name));
    out_.write<std::int64_t>(link_labels_shard_path(p_, edge, name),
                             labels.as<std::int64_t>().subspan(static_cast<std::size_t>(begin),
                                                               static_cast<std::size_t>(end - begin)),
                             {end - begin});
  }

  const DatasetMeta& draft_;
  const int p_;
  const std::span<const fs::path> shards_;
  ShardFolder out_;
};

}  // namespace

void write_id_shard(const DatasetMeta& draft, int partition, std::span<const fs::path> shards,
                    const fs::path& folder) {
  require_partition(draft, partition);
  if (!ShardFolder::is_there(folder)) IdShard(draft, partition, shards, folder).run();
}

}  // namespace hopfeed
