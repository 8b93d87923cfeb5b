// See dataset.h: from original ids to those of the dataset, and back.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/dataset.h"
#include "core/dataset/row_gather.h"

namespace hopfeed {

std::int64_t Dataset::dataset_id(int node_type, std::int64_t original_id) const {
  std::int64_t id = 0;
  dataset_ids(node_type, {&original_id, 1}, {&id, 1});
  return id;
}

void Dataset::dataset_ids(int node_type, std::span<const std::int64_t> original_ids,
                          std::span<std::int64_t> out) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  if (meta_.sharded_ids) {
    find_dataset_ids(node_type, original_ids, out);
    const auto unknown = std::ranges::find(out, -1);
    if (unknown == out.end()) return;
    refuse_unknown_id(node_type, "original", original_ids[static_cast<std::size_t>(unknown - out.begin())]);
  }
  const NpyArray& array = nodes_[node_type].new_ids;
  const auto look_up = [&]<class Id>(const Id* ids) {
    for (std::int64_t original_id :
         original_ids) {  // checked first, so that all look-ups can be under way at once
      check_original_id(node_type, original_id);
      prefetch_line(ids + original_id);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ids[original_ids[i]];
      if (out[i] < 0 || out[i] >= node.count)
        corrupt_file(array.path(), fmt::format("entry {} is {}, out of range", original_ids[i], out[i]));
    }
  };
  if (node.new_id_type == ElementType::kInt32)
    look_up(reinterpret_cast<const std::int32_t*>(array.bytes().data()));  // checked when it was opened
  else
    look_up(reinterpret_cast<const std::int64_t*>(array.bytes().data()));
}

std::int64_t Dataset::original_id(int node_type, std::int64_t dataset_id) const {
  std::int64_t id = 0;
  original_ids(node_type, {&dataset_id, 1}, &id);
  return id;
}

std::int64_t Dataset::checked_original_id(int node_type, std::int64_t dataset_id) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  const int p = partition_of(node.partition_offsets, dataset_id);
  std::int64_t id = 0;
  if (has_partition(p))  // what its row says, be it damaged
    find_original_ids(node_type, {&dataset_id, 1}, &id);
  else
    id = original_id(node_type, dataset_id);
  if (id >= 0 && id < node.count) return id;
  const int edge_type = edge_type_into_[node_type];
  const std::vector<RemoteIdFiles>& lists = nodes_[node_type].remote_ids;
  for (std::size_t part = 0; !has_partition(p) && part < lists.size(); ++part)
    if (const std::int64_t at = lists[part].ids.find(dataset_id); at >= 0)
      corrupt_file(lists[part].entries.path(),
                   fmt::format("entry {} has original id {}, but there are {} nodes; run hopfeed-partition "
                               "verify where all partitions are",
                               at, id, node.count));
  if (!whole_ && !meta_.sharded_ids)
    corrupt_file(folder_ / all_original_ids_path(node),
                 fmt::format("entry {} is {}, but there are {} nodes; run hopfeed-partition verify where all "
                             "partitions are",
                             dataset_id, id, node.count));
  corrupt_file(
      folder_ / (edge_type >= 0 ? rows_path(p, meta_.edge_types[edge_type]) : original_ids_path(p, node)),
      fmt::format("row {} has original id {}, but node type '{}' has {} nodes; run hopfeed-partition "
                  "verify",
                  dataset_id - node.partition_offsets[p], id, node.name, node.count));
}

void Dataset::original_ids(int node_type, std::span<const std::int64_t> dataset_ids,
                           std::int64_t* out) const {
  if (!whole_) return original_ids_of_all(node_type, dataset_ids, out);
  const std::vector<std::int64_t>& offsets = meta_.node_types[node_type].partition_offsets;
  if (const int edge_type = edge_type_into_[node_type]; edge_type >= 0)
    return gather_original_ids(csc(edge_type), dataset_ids, out);
  for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
    const int p = partition_of(offsets, dataset_ids[i]);
    const auto* ids = reinterpret_cast<const std::int64_t*>(nodes_[node_type].original_ids[p].bytes().data());
    out[i] = ids[dataset_ids[i] - offsets[p]];  // checked when it was opened
  }
}

// Unchecked as the row records are.
void Dataset::original_ids_of_all(int node_type, std::span<const std::int64_t> dataset_ids,
                                  std::int64_t* out) const {
  if (meta_.sharded_ids) {
    find_original_ids(node_type, dataset_ids, out);
    const std::int64_t* const end = out + dataset_ids.size();
    const std::int64_t* const unknown = std::find(out, out + dataset_ids.size(), -1);
    if (unknown == end) return;
    refuse_unknown_id(node_type, "dataset", dataset_ids[static_cast<std::size_t>(unknown - out)]);
  }
  constexpr std::size_t kAhead = 16;
  const auto look_up = [&]<class Id>(const Id* ids) {
    for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
      if (i + kAhead < dataset_ids.size()) prefetch_line(ids + dataset_ids[i + kAhead]);
      out[i] = ids[dataset_ids[i]];
    }
  };
  const std::byte* ids = nodes_[node_type].all_original_ids.bytes().data();
  if (meta_.node_types[node_type].new_id_type == ElementType::kInt32)  // checked when it was opened
    look_up(reinterpret_cast<const std::int32_t*>(ids));
  else
    look_up(reinterpret_cast<const std::int64_t*>(ids));
}

OriginalIds Dataset::original_ids(int node_type, int partition) const {
  const std::vector<std::int64_t>& offsets = meta_.node_types[node_type].partition_offsets;
  const std::int64_t count = offsets[partition + 1] - offsets[partition];
  if (const int edge_type = edge_type_into_[node_type]; edge_type >= 0) {
    return {.first = &edges_[edge_type].parts[partition].rows->original_id,
            .count = count,
            .stride = sizeof(RowRecord) / sizeof(std::int64_t)};
  }
  return {.first = nodes_[node_type].original_ids[partition].as<std::int64_t>().data(), .count = count};
}

}  // namespace hopfeed
