// See boundary.h.
#include "results/boundary.h"

#include <algorithm>

#include "results/partition_rows.h"
#include "results/source_rows.h"

namespace hopfeed {

RankedSet boundary_of(const Dataset& dataset, int source_type, std::span<const int> edge_types) {
  const std::vector<std::int64_t>& offsets =
      dataset.meta().node_types[static_cast<std::size_t>(source_type)].partition_offsets;
  std::vector<bool> here;
  for (int p = 0; p < dataset.meta().partitions; ++p) here.push_back(dataset.has_partition(p));
  RankedSet boundary(dataset.whole() ? 0 : dataset.num_nodes(source_type));
  if (!dataset.whole()) {
    for (const int type : edge_types)
      for (const int part : dataset.partitions())
        add_boundary(dataset.csc(type), part, here, offsets, boundary);
  }
  boundary.close();
  return boundary;
}

void fetch_boundary(const RunFolder& folder, const LayerName& name, const RankedSet& boundary,
                    std::span<const std::int64_t> offsets, std::int64_t row_bytes, std::int64_t shard_height,
                    const BoundaryFetch& fetch) {
  std::vector<std::int64_t> ids;
  std::vector<std::byte> rows;
  std::vector<std::uint32_t> numbers;
  std::int64_t first = 0;
  const auto fetch_block = [&] {
    if (!ids.empty() && !folder.boundary().has(name, 0, first)) {
      rows.resize(ids.size() * static_cast<std::size_t>(row_bytes));
      for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
        const int part = partition_of(offsets, ids[begin]);
        numbers.clear();
        for (; end < ids.size() && ids[end] < offsets[static_cast<std::size_t>(part) + 1]; ++end)
          numbers.push_back(static_cast<std::uint32_t>(ids[end] - offsets[static_cast<std::size_t>(part)]));
        fetch(part, numbers, std::span(ids).subspan(begin, end - begin),
              rows.data() + begin * static_cast<std::size_t>(row_bytes));
      }
      folder.boundary().write(
          name, {.partition = 0, .first = first, .count = std::ssize(ids), .row_bytes = row_bytes}, rows);
    }
    first += std::ssize(ids);
    ids.clear();
  };
  boundary.for_each(0, boundary.size() == 0 ? 0 : offsets.back(), [&](std::int64_t id) {
    ids.push_back(id);
    if (std::ssize(ids) == shard_height) fetch_block();
  });
  fetch_block();
}

}  // namespace hopfeed
