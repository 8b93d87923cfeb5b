// See remote_id_files.h.
#include "core/dataset/remote_id_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/dataset/corrupt_file.h"
#include "core/dataset/remote_ids.h"

namespace hopfeed {
namespace {

/// Gives all buckets of a list: `put(number)`, how many entries come before each, and how many there are.
template <class Put>
void for_each_bucket(const NodeTypeMeta& node, const NodeBits& sources, std::int64_t count, const Put& put) {
  const std::int64_t buckets = num_id_buckets(count);
  const std::uint64_t scale = id_bucket_scale(node.count, buckets);
  std::int64_t next = 0, before = 0;  // the first bucket that was not put; entries so far
  sources.for_each([&](std::int64_t id) {
    for (; next <= id_bucket(id, scale); ++next) put(before);
    ++before;
  });
  for (; next <= buckets; ++next) put(before);
}

template <class Id>
void write_entries(NpyWriter& file, const NodeBits& sources, const OriginalIdOf& original_of) {
  sources.for_each([&](std::int64_t id) {
    const Id entry[2] = {static_cast<Id>(id), static_cast<Id>(original_of(id))};
    file.write<Id>(entry);
  });
}

/// An array of a list, of a folder that may be damaged.
NpyArray open_list(const std::filesystem::path& path, ElementType type,
                   const std::vector<std::int64_t>& shape) {
  NpyArray array(path, HugePages::kNever);
  array.require_descr(npy_descr(type));
  if (array.header().shape != shape)
    corrupt_file(array.path(),
                 fmt::format("it has {} entries, and by the rows' edges there are {}",
                             array.header().shape.empty() ? 0 : array.header().shape[0], shape[0]));
  return array;
}

}  // namespace

OriginalIdFiles::OriginalIdFiles(const std::filesystem::path& folder, const DatasetMeta& meta,
                                 const NodeTypeMeta& node)
    : node_(node) {
  // Row records name them, or a file where the type has no rows.
  const auto edge = std::ranges::find(meta.edge_types, node.name, &EdgeTypeMeta::dst);
  const bool rows = edge != meta.edge_types.end();
  for (int p = 0; p < meta.partitions; ++p) {
    const NpyArray& array = arrays_.emplace_back(
        folder / (rows ? rows_path(p, *edge) : original_ids_path(p, node)), HugePages::kNever);
    const auto q = static_cast<std::size_t>(p);
    const std::int64_t count = node.partition_offsets[q + 1] - node.partition_offsets[q];
    if (rows)
      ids_.push_back({.first = &array.as<RowRecord>().data()->original_id,
                      .count = count,
                      .stride = sizeof(RowRecord) / sizeof(std::int64_t)});
    else
      ids_.push_back({.first = array.as<std::int64_t>().data(), .count = count});
  }
}

NodeBits remote_sources(const std::filesystem::path& folder, const DatasetMeta& meta, int node_type,
                        int partition, int threads) {
  const NodeTypeMeta& node = meta.node_types[static_cast<std::size_t>(node_type)];
  const auto p = static_cast<std::size_t>(partition);
  NodeBits sources(node.count);
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    if (edge.src != node.name) continue;
    const NpyArray indices(folder / indices_path(partition, edge), HugePages::kNever);
    sources.add(indices.bytes().data(), edge.index_type, edge.partition_edges[p], threads);
  }
  sources.remove(node.partition_offsets[p], node.partition_offsets[p + 1]);
  return sources;
}

void write_remote_ids(ArrayFolder& out, int part, const NodeTypeMeta& node, const NodeBits& sources,
                      const OriginalIdOf& original_of) {
  const std::int64_t count = sources.count();
  const std::string entries_path = remote_ids_path(part, node), buckets_path = id_buckets_path(part, node);
  NpyWriter entries = out.open(entries_path, npy_descr(node.new_id_type), {count, 2});
  if (node.new_id_type == ElementType::kInt32)
    write_entries<std::int32_t>(entries, sources, original_of);
  else
    write_entries<std::int64_t>(entries, sources, original_of);
  out.close(entries_path, std::move(entries));
  NpyWriter buckets = out.open(buckets_path, npy_descr(ElementType::kInt64), {num_id_buckets(count) + 1});
  for_each_bucket(node, sources, count, [&](std::int64_t before) { buckets.write_one(before); });
  out.close(buckets_path, std::move(buckets));
}

void write_remote_ids(DatasetWriter& writer, DatasetMeta& meta, int threads,
                      const std::function<void(std::uint64_t done, std::uint64_t total)>& done) {
  const std::size_t types = meta.node_types.size();
  for (std::size_t t = 0; t < types; ++t) {
    NodeTypeMeta& node = meta.node_types[t];
    const OriginalIdFiles originals(writer.temporary_folder(), meta, node);
    for (int p = 0; p < meta.partitions; ++p) {
      const NodeBits sources =
          remote_sources(writer.temporary_folder(), meta, static_cast<int>(t), p, threads);
      write_remote_ids(writer, p, node, sources, [&](std::int64_t id) { return originals.at(id); });
      node.remote_sources.push_back(sources.count());
      done(t * static_cast<std::size_t>(meta.partitions) + static_cast<std::size_t>(p) + 1,
           types * static_cast<std::size_t>(meta.partitions));
    }
  }
}

void check_remote_ids(const std::filesystem::path& folder, int part, const NodeTypeMeta& node,
                      const NodeBits& sources, const OriginalIdFiles& originals) {
  const std::int64_t count = sources.count();
  const NpyArray entries = open_list(folder / remote_ids_path(part, node), node.new_id_type, {count, 2}),
                 buckets = open_list(folder / id_buckets_path(part, node), ElementType::kInt64,
                                     {num_id_buckets(count) + 1});
  const RemoteIds list{.entries = entries.bytes().data(), .type = node.new_id_type, .count = count};
  std::int64_t i = 0;
  sources.for_each([&](std::int64_t id) {
    if (list.id(i) != id)
      corrupt_file(entries.path(),
                   fmt::format("entry {} is node {}, and the next that rows have edges from is {}", i,
                               list.id(i), id));
    if (const std::int64_t original = originals.at(id); list.original_id(i) != original)
      corrupt_file(entries.path(), fmt::format("entry {} says original id {} of node {}, its row says {}", i,
                                               list.original_id(i), id, original));
    ++i;
  });
  i = 0;
  for_each_bucket(node, sources, count, [&](std::int64_t before) {
    if (const std::int64_t said = buckets.as<std::int64_t>()[static_cast<std::size_t>(i)]; said != before)
      corrupt_file(
          buckets.path(),
          fmt::format("entry {} says that {} nodes come before the bucket, and {} do", i, said, before));
    ++i;
  });
}

}  // namespace hopfeed
