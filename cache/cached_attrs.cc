// See cached_attrs.h.
#include "cache/cached_attrs.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <ranges>
#include <span>

#include "cache/row_file.h"

namespace hopfeed {
namespace {

/// `offsets` [partitions + 1]
RowHeats heats_by_place(std::span<const std::int64_t> offsets) {
  RowHeats heats(offsets.back());
  for (std::size_t p = 0; p + 1 < offsets.size(); ++p) {
    const std::int64_t count = offsets[p + 1] - offsets[p];
    for (std::int64_t place = 0; place < count;) {
      const std::uint8_t heat = heat_of_place(place, count);
      heats.add(offsets[p] + place, heat);
      const auto others = std::views::iota(place, count);
      place = *std::ranges::partition_point(
          others, [&](std::int64_t other) { return heat_of_place(other, count) == heat; });
    }
  }
  heats.end();
  return heats;
}

void add_attrs(Store store, int type, const std::vector<AttrMeta>& attrs, const Dataset& dataset,
               std::vector<CachedAttr>& out) {
  for (const AttrMeta& meta : attrs) {
    const AttrView attr =
        store == Store::kNode ? dataset.attr(type, meta.name) : dataset.edge_attr(type, meta.name);
    const std::span<const std::int64_t> offsets = attr.partition_offsets;
    const std::int64_t rows = offsets[static_cast<std::size_t>(dataset.meta().partitions)];  // without halos
    if (attr.row_bytes < kLeastFileRowBytes || rows == 0) continue;
    out.push_back(
        {.what = {.store = store, .type = type, .name = meta.name},
         .rows = rows,
         .row_bytes = attr.row_bytes,
         .heat = heats_by_place(offsets.first(static_cast<std::size_t>(dataset.meta().partitions) + 1))});
  }
}

}  // namespace

std::uint8_t heat_of_place(std::int64_t place, std::int64_t count) {
  // A number of 19 bits as one with an exponent and 4 bits behind the first: the 256 that there are.
  constexpr double kPlaces = 1 << 19;
  const auto at =
      static_cast<std::uint32_t>(kPlaces * static_cast<double>(place) / static_cast<double>(count));
  if (at < 16) return static_cast<std::uint8_t>(at);
  const int exponent = std::bit_width(at) - 5;
  return static_cast<std::uint8_t>(16 * exponent + static_cast<int>(at >> exponent));
}

std::vector<CachedAttr> cached_attrs(const Dataset& dataset) {
  std::vector<CachedAttr> attrs;
  for (int t = 0; t < dataset.num_node_types(); ++t)
    add_attrs(Store::kNode, t, dataset.meta().node_types[static_cast<std::size_t>(t)].attrs, dataset, attrs);
  for (int e = 0; e < dataset.num_edge_types(); ++e)
    add_attrs(Store::kEdge, e, dataset.meta().edge_types[static_cast<std::size_t>(e)].attrs, dataset, attrs);
  return attrs;
}

}  // namespace hopfeed
