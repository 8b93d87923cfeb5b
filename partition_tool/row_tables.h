// What a dataset keeps of the edges of one row beside their ends: the table that weighted draws go by, and
// the order by time. Who has the rows calls this for each: the shared last stage (edge_arrays.h), and who
// makes one partition alone (tables/edge_shard.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/element_type.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/row_order.h"
#include "core/dataset/time_codes.h"

namespace hopfeed {

/// Writes the numbers of an attribute that can be a weight (float32, float64, int32, int64) as float64.
void weights_to_doubles(ElementType type, std::span<const std::byte> bytes, std::vector<double>& out);

/// An AliasRecord is an alias table entry as files have it from version 7 on.
template <class Id>
struct AliasRecord {
  AliasEntry entry;
  Id source, alias_source;
};

/// Writes a row's table. `sources` are dataset ids, `entries` is scratch. Throws what AliasBuilder throws.
template <class Id>
void alias_records(AliasBuilder& builder, std::span<const double> weights, std::span<const Id> sources,
                   std::vector<AliasEntry>& entries, AliasRecord<Id>* out) {
  static_assert(sizeof(AliasRecord<Id>) == alias_entry_bytes(sizeof(Id)));
  entries.resize(weights.size());
  builder.build(weights, entries);
  for (std::size_t i = 0; i < entries.size(); ++i)
    out[i] = {.entry = entries[i], .source = sources[i], .alias_source = sources[entries[i].alias]};
}

/// TimeRow is where the order of a row goes, an element for each edge.
template <class Id>
struct TimeRow {
  std::uint32_t* order;
  std::int64_t* times;
  std::int16_t* codes;
  Id* indices;
};

/// Orders a row by the times of its edges. `sources` are dataset ids, `order` is scratch.
template <class Id>
void order_by_time(std::span<const std::int64_t> times, std::span<const std::int64_t> bounds,
                   std::span<const Id> sources, std::vector<std::uint32_t>& order, const TimeRow<Id>& out) {
  order_row(times, order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.order[i] = order[i];
    out.times[i] = times[order[i]];
    out.codes[i] = time_code(bounds, out.times[i]);
    out.indices[i] = sources[order[i]];
  }
}

}  // namespace hopfeed
