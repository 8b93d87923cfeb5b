// The kernels of one hop of one edge type go from a frontier to places of edges: they look at the rows, and
// draw. A kernel is a functor; an item of a launch is one call of it, and no item waits for another. The
// numbers are those of the rules in core/draws, keyed by original ids, so that the order of the items shows
// in nothing.
#pragma once
#include <cstdint>

#include "core/dataset/alias_entry.h"
#include "core/draws/sampling_rule.h"
#include "core/draws/temporal_rule.h"
#include "core/draws/weighted_rule.h"
#include "gpu/kernels/device_views.h"

namespace hopfeed::gpu {

inline constexpr std::uint32_t kMaxOwnDraws = 32;             // of a row, in its thread's own memory
inline constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};  // of an edge that was not drawn after all

/// A LookedRow is a row of the frontier, once it was looked at.
struct LookedRow {
  std::uint64_t place = 0;       // of the first edge that it may draw, in the order of its indices
  std::uint64_t degree = 0;      // so many from there on, of which
  std::uint64_t population = 0;  // are not excluded
  std::uint64_t original_id = 0;
  std::uint64_t begin = 0, length = 0;  // of temporal draws: of the whole row
};

/// RowNotes are what a batch has of each expanded node, by local id.
struct RowNotes {
  std::int64_t* original_ids = nullptr;
  std::uint32_t* per_dst = nullptr;  // edges

  HOPFEED_HOST_DEVICE void write(std::uint64_t local, const LookedRow& row, std::uint64_t gives) const {
    per_dst[local] = static_cast<std::uint32_t>(gives);
    original_ids[local] = static_cast<std::int64_t>(row.original_id);
  }
};

/// WeightsLeft is memory for the weights of rows from which draws remove (weighted_rule.h), of all edge types
/// of a hop: which words are whose comes as threads ask, and shows in nothing.
struct WeightsLeft {
  /// A row is one thread's work, which goes over the row for each draw.
  static constexpr std::uint64_t kMostSteps = 1 << 14;
  std::uint64_t* words = nullptr;
  std::uint64_t size = 0;
  std::uint64_t* taken = nullptr;  // cell: how many of them

  /// Returns as many words as a row has edges, or null where there are not so many, or `draws` are more work
  /// than a thread's.
  HOPFEED_HOST_DEVICE std::uint64_t* take(std::uint64_t count, std::uint32_t draws) const {
    if (count * (draws + 1) > kMostSteps) return nullptr;
    const std::uint64_t at = atomic_add(taken, count);
    return at + count <= size ? words + at : nullptr;
  }
};

/// A RowStep is what the kernels of one edge type in one hop share.
struct RowStep {
  DeviceEdges edges;
  DeviceExcluded excluded;
  DeviceTimes times;
  std::uint64_t* flag = nullptr;  // see raise()
  /// Cells of counts: the frontier's local ids are from the first one on and below the second one.
  const std::uint64_t *frontier_begin = nullptr, *frontier_end = nullptr;
  std::int64_t fanout = -1;
  bool replace = false;
  bool last = false;                   // of temporal draws: the latest
  const NodeStream* stream = nullptr;  // of this hop and edge type, in memory that the device reads
  int node_bits = 0;                   // of an id in a disjoint batch: tree << node_bits | node; else 63
  const std::uint64_t* dst_ids = nullptr;
  std::uint64_t row_bound = 0;  // no frontier is larger
  /// [row_bound] has the frontier's rows in the order in which they lie, where they are read in the host's
  /// memory: reads far apart wait for the GPU's page tables there. Null: as they come.
  const std::uint32_t* order = nullptr;
  LookedRow* rows = nullptr;  // [row_bound]
  /// [row_bound + 1] is how many edges each row gives; behind the scan, where they begin.
  std::uint64_t* offsets = nullptr;
  std::uint64_t* places = nullptr;         // [edges] of the drawn edges
  std::uint64_t* source_places = nullptr;  // [edges] of weighted draws: twice the column, and one for aliases
  std::uint32_t* row_of = nullptr;         // [edges]
  RowNotes notes;
  WeightsLeft left;  // of weighted draws without replacement

  HOPFEED_HOST_DEVICE std::uint64_t expanded() const { return *frontier_begin; }
  HOPFEED_HOST_DEVICE std::uint64_t frontier() const { return *frontier_end - *frontier_begin; }
  /// Returns the row that is the work of item k of the frontier.
  HOPFEED_HOST_DEVICE std::uint64_t row(std::uint64_t k) const { return order == nullptr ? k : order[k]; }
  HOPFEED_HOST_DEVICE std::uint64_t id_of(std::uint64_t row) const { return dst_ids[expanded() + row]; }
  HOPFEED_HOST_DEVICE std::uint64_t node_mask() const { return (std::uint64_t{1} << node_bits) - 1; }
  HOPFEED_HOST_DEVICE std::uint32_t tree_of(std::uint64_t row) const {
    return static_cast<std::uint32_t>(id_of(row) >> node_bits);
  }
  HOPFEED_HOST_DEVICE std::uint64_t num_edges() const { return offsets[row_bound]; }
  HOPFEED_HOST_DEVICE bool weighted() const { return edges.alias_bytes > 0; }
  HOPFEED_HOST_DEVICE bool takes_all(const LookedRow& row) const {
    return fanout < 0 || (!replace && row.population <= static_cast<std::uint64_t>(fanout));
  }
  HOPFEED_HOST_DEVICE const AliasEntry& alias_entry(std::uint64_t place) const {
    const unsigned char* first = edges.parts[EdgePlace::part(place)].aliases;
    return *reinterpret_cast<const AliasEntry*>(first + EdgePlace::position(place) *
                                                            static_cast<std::uint64_t>(edges.alias_bytes));
  }
};

/// ExcludedSources are the sources that are excluded of one row.
struct ExcludedSources {
  const std::int64_t* first = nullptr;
  std::uint64_t count = 0;

  HOPFEED_HOST_DEVICE static ExcludedSources of(const DeviceExcluded& excluded, std::int64_t destination) {
    const std::uint64_t at = lower_bound(excluded.destinations, excluded.count, destination);
    if (at == excluded.count || excluded.destinations[at] != destination) return {};
    return {excluded.sources + excluded.first[at], excluded.first[at + 1] - excluded.first[at]};
  }
  HOPFEED_HOST_DEVICE bool has(std::int64_t source) const {
    const std::uint64_t at = lower_bound(first, count, source);
    return at < count && first[at] == source;
  }
  HOPFEED_HOST_DEVICE static std::uint64_t lower_bound(const std::int64_t* values, std::uint64_t count,
                                                       std::int64_t value) {
    std::uint64_t lo = 0, hi = count;
    while (lo < hi) {
      const std::uint64_t mid = (lo + hi) / 2;
      if (values[mid] < value)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  }
};

/// A RowLook reads the record of a row of the frontier.
class RowLook {
 public:
  HOPFEED_HOST_DEVICE explicit RowLook(const RowStep& step) : step_(step) {}

  /// Returns how many edges row i gives.
  HOPFEED_HOST_DEVICE std::uint64_t look(std::uint64_t i, LookedRow& row) const {
    const auto node = static_cast<std::int64_t>(step_.id_of(i) & step_.node_mask());
    const int p = step_.edges.partition_of(node);
    const DevicePart& part = step_.edges.parts[p];
    const RowRecord* record = part.record(node - step_.edges.partition_offsets[p]);
    const auto begin = static_cast<std::uint64_t>(record[0].offset),
               end = static_cast<std::uint64_t>(record[1].offset);
    if (begin > end || end > static_cast<std::uint64_t>(part.num_edges)) {  // it must never become an address
      raise(step_.flag, Fallback::kDamaged);
      return 0;
    }
    if (end - begin > (step_.weighted() ? INT32_MAX : UINT32_MAX)) {
      raise(step_.flag, Fallback::kWideRow);
      return 0;
    }
    row.place = EdgePlace::pack(p, begin);
    row.degree = row.population = end - begin;
    row.original_id = static_cast<std::uint64_t>(record[0].original_id);
    if (step_.fanout == 0 || row.degree == 0) return 0;
    if (step_.weighted()) return look_at_weights(i, row);
    if (step_.edges.temporal) look_at_times(part, i, row);
    if (step_.excluded.count > 0) leave_out(part, node, row);
    return num_drawn(row.population, step_.fanout, step_.replace);
  }

 private:
  /// Leaves what of the row is in the past of its tree's seed.
  HOPFEED_HOST_DEVICE void look_at_times(const DevicePart& part, std::uint64_t i, LookedRow& row) const {
    row.begin = EdgePlace::position(row.place);
    row.length = row.degree;
    const TimedRow timed{part.codes + row.begin, part.times + row.begin, row.degree};
    const std::uint32_t tree = step_.tree_of(i);
    const TimePlace& end = step_.times.ends[tree];
    std::uint64_t until_begin = 0;
    if (step_.times.begins != nullptr) {
      const TimePlace& begin = step_.times.begins[tree];
      until_begin = timed.num_until(begin, TimeBracket::guess(row.degree, begin));
    }
    const TimedStretch past = TimedStretch::between(until_begin, timed.num_until(end, timed.start(end)));
    row.place += past.first;
    row.degree = row.population = past.count;
  }

  HOPFEED_HOST_DEVICE void leave_out(const DevicePart& part, std::int64_t node, LookedRow& row) const {
    const ExcludedSources sources = ExcludedSources::of(step_.excluded, node);
    if (sources.count == 0) return;
    const std::uint64_t begin = EdgePlace::position(row.place);
    for (std::uint64_t j = 0; j < row.degree; ++j)
      row.population -= sources.has(part.source(begin + j, step_.edges.index_bytes));
  }

  /// Returns how many edges a row gives by weight: none where all of it weighs nothing, and of all its edges
  /// those that weigh something.
  HOPFEED_HOST_DEVICE std::uint64_t look_at_weights(std::uint64_t i, const LookedRow& row) const {
    if (step_.takes_all(row)) {
      std::uint64_t count = 0;
      for (std::uint64_t j = 0; j < row.degree; ++j) count += step_.alias_entry(row.place + j).threshold > 0;
      return count;
    }
    const std::uint32_t column = alias_draw(step_.stream->of(row.original_id, step_.tree_of(i)), 0,
                                            static_cast<std::uint32_t>(row.degree))
                                     .column;
    const AliasEntry& entry = step_.alias_entry(row.place + column);
    return entry.threshold == 0 && entry.alias == column ? 0 : static_cast<std::uint64_t>(step_.fanout);
  }

  const RowStep& step_;
};

/// Item k of row_bound reads the record of a node of the frontier, and says how many edges it gives.
struct LookAtRows {
  RowStep step;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t k) const {
    if (k == 0) *step.left.taken = 0;
    if (k >= step.frontier()) {
      step.offsets[k] = 0;
      return;
    }
    const std::uint64_t i = step.row(k);
    LookedRow row;
    const std::uint64_t gives = RowLook(step).look(i, row);
    step.rows[i] = row;
    step.offsets[i] = gives;
    step.notes.write(step.expanded() + i, row, gives);
  }
};

/// RowOffsets are the numbers of the scan behind it, over row_bound + 1: where the edges of each row begin,
/// and how many there are.
struct RowOffsets {
  RowStep step;

  HOPFEED_HOST_DEVICE std::uint64_t number(std::uint64_t i) const {
    return i < step.row_bound ? step.offsets[i] : 0;
  }
};

/// TableSeen keeps draws in zeroed memory: it is `Seen` of sampling_rule.h for large fanouts.
struct TableSeen {
  std::uint32_t* table;
  std::uint32_t mask;

  /// Uses memory of `words`, twice the draws or more.
  HOPFEED_HOST_DEVICE static TableSeen in(std::uint32_t* table, std::uint32_t words) {
    std::uint32_t size = 1;
    while (size <= words / 2) size *= 2;
    return {table, size - 1};
  }
  template <class Pick>
  HOPFEED_HOST_DEVICE bool add(const Pick* /*picks*/, std::uint32_t /*count*/, Pick candidate) const {
    const auto entry = static_cast<std::uint32_t>(candidate + 1);  // 0 is empty
    for (std::uint32_t at = entry * 0x9E3779B1u & mask;; at = (at + 1) & mask) {
      if (table[at] == entry) return true;
      if (table[at] == 0) {
        table[at] = entry;
        return false;
      }
    }
  }
  template <class Pick>
  HOPFEED_HOST_DEVICE void add_replacement(Pick pick) const {
    add<Pick>(nullptr, 0, pick);
  }
};

/// Draws the edges of one row, `count` of them, in the order of the draws.
template <class Seen>
class RowDraw {
 public:
  /// `picks` holds `count` rounded up to a multiple of 4.
  HOPFEED_HOST_DEVICE RowDraw(const RowStep& step, std::uint64_t i, std::uint32_t* picks, Seen seen)
      : step_(step),
        row_(step.rows[i]),
        i_(i),
        first_(step.offsets[i]),
        count_(static_cast<std::uint32_t>(step.offsets[i + 1] - first_)),
        picks_(picks),
        seen_(seen) {}

  HOPFEED_HOST_DEVICE void draw() const {
    for (std::uint32_t j = 0; j < count_; ++j) step_.row_of[first_ + j] = static_cast<std::uint32_t>(i_);
    if (step_.weighted())
      draw_weighted();
    else
      draw_uniform();
  }

 private:
  HOPFEED_HOST_DEVICE NodeStream stream() const {
    return step_.stream->of(row_.original_id, step_.tree_of(i_));
  }

  HOPFEED_HOST_DEVICE void draw_uniform() const {
    std::uint64_t* places = step_.places + first_;
    const bool all = step_.takes_all(row_), whole = row_.population == row_.degree;
    if (all && whole) {
      for (std::uint32_t j = 0; j < count_; ++j) places[j] = row_.place + j;
      return;
    }
    const auto population = static_cast<std::uint32_t>(row_.population);
    if (!all) pick(population);
    for (std::uint32_t j = 0; !all && j < count_; ++j) places[j] = row_.place + picks_[j];
    if (!whole) step_over_excluded(places, all);
  }

  HOPFEED_HOST_DEVICE void pick(std::uint32_t population) const {
    if (step_.last)
      for (std::uint32_t j = 0; j < count_; ++j) picks_[j] = population - count_ + j;
    else if (step_.replace)
      pick_with_replacement(stream(), population, count_, picks_);
    else
      pick_without_replacement(stream(), population, count_, picks_, seen_);
  }

  /// Draws are of what is left of a row, numbered on without gaps (left_out.h): those behind an excluded edge
  /// move on by one.
  HOPFEED_HOST_DEVICE void step_over_excluded(std::uint64_t* places, bool all) const {
    const auto node = static_cast<std::int64_t>(step_.id_of(i_) & step_.node_mask());
    const ExcludedSources sources = ExcludedSources::of(step_.excluded, node);
    const DevicePart& part = step_.edges.parts[EdgePlace::part(row_.place)];
    const std::uint64_t begin = EdgePlace::position(row_.place);
    std::uint64_t left = 0;
    for (std::uint64_t j = 0; j < row_.degree; ++j) {
      const bool excluded = sources.has(part.source(begin + j, step_.edges.index_bytes));
      if (all && !excluded) places[left] = row_.place + j;
      for (std::uint32_t d = 0; !all && excluded && d < count_; ++d) places[d] += picks_[d] >= left;
      left += !excluded;
    }
  }

  HOPFEED_HOST_DEVICE void draw_weighted() const {
    std::uint32_t taken = 0;
    if (step_.takes_all(row_)) {
      for (std::uint32_t i = 0; taken < count_; ++i)
        if (step_.alias_entry(row_.place + i).threshold > 0) take(taken++, i, i, false);
    } else if (step_.replace) {
      while (taken < count_) {
        draw_alias(taken, taken);
        ++taken;
      }
    } else {
      for (std::uint32_t t = 0; t < max_attempts(count_) && taken < count_; ++t) {
        const std::uint32_t position = draw_alias(t, taken);
        if (!seen_.add(picks_, taken, position)) picks_[taken++] = position;
      }
      if (taken < count_) draw_and_remove(taken);
    }
  }

  /// Goes on behind `taken` draws, whose positions are picks_, as WeightedPicker does: draws fall into what
  /// the weights that are left sum up to, in the order of the row. A row may run out of weights.
  HOPFEED_HOST_DEVICE void draw_and_remove(std::uint32_t taken) const {
    std::uint64_t* const left = step_.left.take(row_.degree, count_ - taken);
    if (left == nullptr) raise(step_.flag, Fallback::kDrawsRemove);
    std::uint64_t total = left == nullptr ? 0 : sum_up(left);
    for (std::uint32_t j = 0; j < taken && total > 0; ++j) remove(left, picks_[j], total);
    for (std::uint32_t t = max_attempts(count_); taken < count_ && total > 0; ++t) {
      std::uint64_t at = draw_below_wide(stream(), t, total);
      std::uint32_t position = 0;
      while (left[position] <= at) at -= left[position++];
      take(taken++, position, position, false);
      remove(left, position, total);
    }
    step_.notes.per_dst[step_.expanded() + i_] = taken;
    for (; taken < count_; ++taken) step_.places[first_ + taken] = kNoPlace;
  }

  /// Writes what each edge weighs (alias_weights), and returns the sum.
  HOPFEED_HOST_DEVICE std::uint64_t sum_up(std::uint64_t* left) const {
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < row_.degree; ++i) left[i] = 0;
    for (std::uint64_t i = 0; i < row_.degree; ++i) {
      const AliasEntry entry = step_.alias_entry(row_.place + i);
      if (entry.alias >= row_.degree) {
        raise(step_.flag, Fallback::kDamaged);
        return 0;
      }
      const std::uint64_t own = own_of_column(entry, i), alias = alias_of_column(entry, i);
      left[i] += own;
      left[entry.alias] += alias;
      total += own + alias;
    }
    return total;
  }
  HOPFEED_HOST_DEVICE static void remove(std::uint64_t* left, std::uint32_t position, std::uint64_t& total) {
    total -= left[position];
    left[position] = 0;
  }

  /// Has draw t become edge `number` of the row, unless it is a repeat.
  HOPFEED_HOST_DEVICE std::uint32_t draw_alias(std::uint32_t t, std::uint32_t number) const {
    const AliasDraw draw = alias_draw(stream(), t, static_cast<std::uint32_t>(row_.degree));
    const AliasEntry entry = step_.alias_entry(row_.place + draw.column);
    std::uint32_t position = alias_position(draw, entry);
    if (position >= row_.degree) {
      raise(step_.flag, Fallback::kDamaged);
      position = 0;
    }
    take(number, draw.column, position, !is_own(draw, entry));
    return position;
  }

  HOPFEED_HOST_DEVICE void take(std::uint32_t number, std::uint32_t column, std::uint32_t position,
                                bool alias) const {
    step_.places[first_ + number] = row_.place + position;
    step_.source_places[first_ + number] = 2 * (EdgePlace::position(row_.place) + column) + alias;
  }

  const RowStep& step_;
  const LookedRow row_;
  const std::uint64_t i_, first_;
  const std::uint32_t count_;
  std::uint32_t* const picks_;
  const Seen seen_;
};

/// Item k of row_bound draws for a row, of fanouts up to kMaxOwnDraws, or all of its edges.
struct DrawFew {
  RowStep step;
  bool only_with_excluded;  // TakeAll has the others

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t k) const {
    const std::uint64_t i = k < step.frontier() ? step.row(k) : k;
    if (step.offsets[i] == step.offsets[i + 1]) return;
    if (only_with_excluded && step.rows[i].population == step.rows[i].degree) return;
    std::uint32_t picks[kMaxOwnDraws];
    RowDraw<LinearSeen>(step, i, picks, {}).draw();
  }
};

/// Item i of row_bound draws for row i, of fanouts above kMaxOwnDraws, in memory for all rows together.
struct DrawMany {
  RowStep step;
  std::uint32_t* memory;  // zero; words() of it

  /// Returns how many words rows with so many edges take: for each row its draws, rounded up, and a table of
  /// at least twice as many.
  HOPFEED_HOST_DEVICE static std::uint64_t words(std::uint64_t edges, std::uint64_t rows) {
    return 5 * edges + 3 * rows;
  }
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t first = step.offsets[i];
    const auto count = static_cast<std::uint32_t>(step.offsets[i + 1] - first);
    if (count == 0) return;
    std::uint32_t* picks = memory + words(first, i);
    RowDraw<TableSeen>(step, i, picks, TableSeen::in(picks + count + 3, 4 * count)).draw();
  }
};

/// Item e of the edges takes an edge of rows that give all they have, so that a hub's edges are many threads'
/// work.
struct TakeAll {
  RowStep step;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t e) const {
    if (e >= step.num_edges()) return;
    std::uint64_t lo = 0, hi = step.row_bound;  // the last row that begins at e or before
    while (hi - lo > 1) {
      const std::uint64_t mid = (lo + hi) / 2;
      if (step.offsets[mid] <= e)
        lo = mid;
      else
        hi = mid;
    }
    const LookedRow& row = step.rows[lo];
    if (row.population != row.degree) return;
    step.places[e] = row.place + (e - step.offsets[lo]);
    step.row_of[e] = static_cast<std::uint32_t>(lo);
  }
};

}  // namespace hopfeed::gpu
