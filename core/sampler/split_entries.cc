// See split_entries.h.
#include "core/sampler/split_entries.h"

#include <fmt/format.h>

#include <iterator>
#include <map>

#include "core/dataset/corrupt_file.h"

namespace hopfeed {
namespace {

/// Reads a column of the entries at `places` into out[at[i]]. `allowed(number)`: whether it can be there.
class ShardReader {
 public:
  ShardReader(std::span<const std::int64_t> places, std::span<const std::size_t> at)
      : places_(places), at_(at) {}
  /// `file` names the file of `numbers`, which have `width` columns.
  template <class Allowed, class File>
  void read(std::span<const std::int64_t> numbers, std::size_t width, std::size_t column,
            const Allowed& allowed, const File& file, std::vector<std::int64_t>& out) const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::int64_t number = numbers[static_cast<std::size_t>(places_[i]) * width + column];
      if (!allowed(number))
        corrupt_file(file(), fmt::format("entry {} has {}, which cannot be; run hopfeed-partition verify "
                                         "where all partitions are",
                                         places_[i], number));
      out[at_[i]] = number;
    }
  }

 private:
  std::span<const std::int64_t> places_;
  std::span<const std::size_t> at_;
};

}  // namespace

SplitMeta find_split(const Dataset& dataset, Store store, int type, const std::string& name) {
  const DatasetMeta& meta = dataset.meta();
  SplitMeta split{.store = store, .type = type, .name = name};
  const auto number_of = [&](const std::map<std::string, std::int64_t>& splits) {
    const auto found = splits.find(name);
    split.number = static_cast<std::uint32_t>(std::distance(splits.begin(), found));
    split.count = found->second;
  };
  if (!split.is_edge()) {
    dataset.split_shard(type, name, 0);  // throws where there is none
    split.src_type = type;
    number_of(meta.node_types[static_cast<std::size_t>(type)].splits);
    return split;
  }
  dataset.link_shard(type, name, 0);
  const EdgeTypeMeta& edge = meta.edge_types[static_cast<std::size_t>(type)];
  split.src_type = meta.edge_src_type(edge);
  split.dst_type = meta.edge_dst_type(edge);
  split.has_labels = meta.has_labels(edge, name);
  split.has_times = meta.has_times(edge, name);
  number_of(edge.splits);
  if (split.has_labels) split.smallest_label = edge.smallest_labels.at(name);
  return split;
}

void SplitEntries::resize(const SplitMeta& of, std::size_t count) {
  originals.resize(count);
  ids.resize(count);
  destination_originals.resize(of.is_edge() ? count : 0);
  destination_ids.resize(of.is_edge() ? count : 0);
  labels.resize(of.has_labels ? count : 0);
  times.resize(of.has_times ? count : 0);
}

void read_split_shard(const Dataset& dataset, const SplitMeta& split, int partition,
                      std::span<const std::int64_t> places, std::span<const std::size_t> at,
                      SplitEntries& out) {
  const DatasetMeta& meta = dataset.meta();
  const ShardReader reader(places, at);
  const auto node_of = [&](int node_type) {
    return [count = static_cast<std::uint64_t>(dataset.num_nodes(node_type))](std::int64_t number) {
      return static_cast<std::uint64_t>(number) < count;
    };
  };
  const auto any = [](std::int64_t) { return true; };
  if (!split.is_edge()) {
    const NodeTypeMeta& node = meta.node_types[static_cast<std::size_t>(split.type)];
    const auto file = [&] { return dataset.folder() / split_shard_path(partition, node, split.name); };
    const std::span<const std::int64_t> ids = dataset.split_shard(split.type, split.name, partition).ids;
    reader.read(ids, 2, 0, node_of(split.type), file, out.originals);
    reader.read(ids, 2, 1, node_of(split.type), file, out.ids);
    return;
  }
  const EdgeTypeMeta& edge = meta.edge_types[static_cast<std::size_t>(split.type)];
  const LinkShard shard = dataset.link_shard(split.type, split.name, partition);
  const auto pairs = [&] { return dataset.folder() / link_pairs_shard_path(partition, edge, split.name); };
  reader.read(shard.pairs, 4, 0, node_of(split.src_type), pairs, out.originals);
  reader.read(shard.pairs, 4, 1, node_of(split.dst_type), pairs, out.destination_originals);
  reader.read(shard.pairs, 4, 2, node_of(split.src_type), pairs, out.ids);
  reader.read(shard.pairs, 4, 3, node_of(split.dst_type), pairs, out.destination_ids);
  if (split.has_labels)
    reader.read(
        shard.labels, 1, 0, [&](std::int64_t label) { return label >= split.smallest_label; },
        [&] { return dataset.folder() / link_labels_shard_path(partition, edge, split.name); }, out.labels);
  if (split.has_times) reader.read(shard.times, 1, 0, any, pairs, out.times);
}

}  // namespace hopfeed
