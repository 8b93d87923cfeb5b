// See hop_draws.h.
#include "core/sampler/hop_draws.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/sampler/row_reader.h"

namespace hopfeed {

int node_bits_of(const Dataset& dataset) {
  int bits = 0;
  for (int t = 0; t < dataset.num_node_types(); ++t)
    bits =
        std::max(bits, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(dataset.end_of_ids(t)))));
  return bits;
}

HopDraws::HopDraws(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset),
      options_(options),
      node_bits_(node_bits_of(dataset)),
      types_(plan_edge_types(dataset, options)),
      time_places_(types_.size()) {
  if (options.labor) labor_.emplace(types_.size(), options.fanouts.size());
}

void HopDraws::begin(const ExcludedEdges* excluded, std::span<const std::int64_t> seed_times,
                     std::uint32_t first_tree) {
  excluded_.begin(excluded);
  first_tree_ = first_tree;
  if (options_.time.empty()) return;
  for (std::size_t t = 0; t < types_.size(); ++t)
    if (types_[t].time) time_places_[t].find(types_[t].time->bounds, seed_times, options_);
}

NodeStream HopDraws::stream_of(const Hop& hop) const {
  const std::int64_t first = hop.key.first;
  return node_stream(
      {.purpose = options_.labor ? Purpose::kLabor : Purpose::kNeighbors,
       .seed = hop.key.seed,
       .epoch = hop.key.epoch,
       .first = options_.labor_seeds > 0 ? first / options_.labor_seeds : first,
       .hop = static_cast<std::uint32_t>(options_.labor ? hop.number / kLaborHops : hop.number),
       .edge_type = static_cast<std::uint32_t>(hop.edge_type)});
}

void HopDraws::expand(const Hop& hop, const Rows& rows) {
  const EdgeTypePlan& type = types_[hop.edge_type];
  const PickOptions pick{
      .fanout = type.fanouts[hop.number], .replace = options_.replace, .stream = stream_of(hop)};
  PickScratch& scratch = scratch_.picks;
  try {
    if (options_.labor) {
      expand_with(hop, rows,
                  LaborPicker(pick, static_cast<std::uint32_t>(hop.number), dataset_, type.csc,
                              labor_tables(hop, rows, pick), scratch));
    } else if (type.weight) {
      expand_with(hop, rows, WeightedPicker(pick, *type.weight, element_bytes(type.csc.index_type), scratch));
    } else if (type.time) {
      const SeedPlaces& places = time_places_[hop.edge_type];
      expand_with(hop, rows,
                  TemporalPicker(pick,
                                 {.time = *type.time,
                                  .ends = places.ends(),
                                  .begins = places.begins(),
                                  .first_tree = first_tree_,
                                  .strategy = options_.temporal_strategy,
                                  .index_bytes = element_bytes(type.csc.index_type),
                                  .positions = options_.edge_ids || type.positions},
                                 scratch));
    } else {
      expand_with(hop, rows, UniformPicker(pick, scratch));
    }
  } catch (const DamagedRow& damage) {
    throw damage_error(dataset_, static_cast<int>(hop.edge_type), damage);
  }
}

LaborTables HopDraws::labor_tables(const Hop& hop, const Rows& rows, const PickOptions& pick) {
  // Nothing is drawn; or the tables' nodes lie on other machines, and those of a row are looked up one by
  // one.
  if (pick.fanout <= 0 || !dataset_.whole()) return {};
  const CscView& csc = types_[hop.edge_type].csc;
  // The seeds' rows are their own batch's, and a row with excluded edges takes others in each batch.
  const bool keep = options_.labor_seeds > hop.key.count && hop.number > 0 &&
                    !excluded_.any(static_cast<int>(hop.edge_type));
  return labor_->of(dataset_, csc,
                    {.edge_type = hop.edge_type,
                     .number = hop.number,
                     .key = pick.stream.key,
                     .looks = neighbors_up_to(LaborMemory::looks_that_matter(csc), hop, rows),
                     .keep = keep});
}

/// How many neighbours the rows to expand have; counting ends where there are `enough`.
std::uint64_t HopDraws::neighbors_up_to(std::uint64_t enough, const Hop& hop, const Rows& rows) const {
  const RowReader reader(dataset_, static_cast<int>(hop.edge_type));
  const std::int64_t* ids = rows.ends.dst.ids.data();
  std::uint64_t sum = 0;
  for (std::uint32_t i = rows.lo; i < rows.hi && sum < enough; ++i) sum += reader.row(ids[i]).degree;
  return sum;
}

template <WholePicker P>
void HopDraws::expand_with(const Hop& hop, const Rows& rows, const P& picker) {
  const EdgeTypePlan& type = types_[hop.edge_type];
  const ExpandOptions expand_options{
      .edge_ids = options_.edge_ids, .positions = type.positions, .node_bits = node_bits_};
  const HopRows to_expand{.ends = rows.ends,
                          .options = expand_options,
                          .relabel = rows.relabel,
                          .scratch = scratch_,
                          .lo = rows.lo,
                          .hi = rows.hi};
  if (excluded_.any(static_cast<int>(hop.edge_type)))
    expand_hop(to_expand, ExcludingPicker<P>(picker, {.rows = excluded_,
                                                      .edge_type = static_cast<int>(hop.edge_type),
                                                      .index_type = type.csc.index_type,
                                                      .weights = type.weights ? &*type.weights : nullptr}));
  else
    expand_hop(to_expand, picker);
}

// ---- memory

// Edges of one type that destinations expanded together give at most, of `all` in a batch. Layer-dependent
// draws look at rows from end to end.
std::size_t HopDraws::most_in_group(std::size_t e, std::size_t all) const {
  const std::vector<std::int64_t>& fanouts = types_[e].fanouts;
  if (fanouts.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(fanouts);
  std::size_t row = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
  if (least < 0 || options_.labor)
    row = std::max(row, RowReader(dataset_, static_cast<int>(e)).greatest_degree());
  return std::min(DrawnGroup::kRows * row, all);
}

// What the picker of expand() takes.
PickScratch::Most HopDraws::most_of_picker(std::size_t e, std::size_t group) const {
  PickBounds bounds{.group = group, .fanout = 0, .replace = options_.replace, .longest_row = [this, e] {
                      return RowReader(dataset_, static_cast<int>(e)).greatest_degree();
                    }};
  for (const std::int64_t fanout : types_[e].fanouts)
    if (fanout > 0) bounds.fanout = std::max(bounds.fanout, static_cast<std::size_t>(fanout));
  if (options_.labor) return LaborPicker::most_scratch(bounds);
  if (types_[e].weight) return WeightedPicker::most_scratch(bounds);
  if (types_[e].time) return TemporalPicker::most_scratch(bounds);
  return UniformPicker::most_scratch(bounds);
}

std::size_t HopDraws::scratch_bytes() const {
  std::size_t bytes = scratch_.bytes() + excluded_.bytes();
  for (const SeedPlaces& places : time_places_) bytes += places.bytes();
  return labor_ ? bytes + labor_->scratch_bytes() : bytes;
}

std::size_t HopDraws::later_table_bytes() const {
  if (!labor_ || !dataset_.whole()) return 0;
  return LaborMemory::max_scratch_bytes(dataset_, options_.fanouts.size(), options_.labor_seeds > 0);
}

HopDraws::Most HopDraws::most(std::span<const std::int64_t> edges, std::size_t num_seeds) const {
  Most result;
  ExpandOptions of_any{.edge_ids = options_.edge_ids};
  PickScratch::Most picks;
  for (std::size_t e = 0; e < types_.size(); ++e) {
    const std::size_t group = most_in_group(e, static_cast<std::size_t>(edges[e]));
    result.group = std::max(result.group, group);
    picks.cover(most_of_picker(e, group));
    of_any.positions |= types_[e].positions;
    if (types_[e].time) result.bytes += SeedPlaces::max_bytes(num_seeds, options_);
  }
  result.bytes += ExpandScratch::max_bytes(result.group, of_any, options_.trees(), picks);
  if (options_.link.excludes()) {
    ExcludedRows::Most most = most_excluded(dataset_, num_seeds, DrawnGroup::kRows);
    most.weighted = !options_.weight.empty();
    result.bytes += ExcludedRows::max_bytes(most);
  }
  return result;
}

}  // namespace hopfeed
