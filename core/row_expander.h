// One hop of one edge type: draws neighbours for a range of destination nodes and gives them local ids. The pipeline of
// neighbor_sampler.h lives here.
//
// Groups of kGroup destinations pass four stages, three groups in flight:
//   fetch    prefetch the row records
//   draw     read offsets and original ids, draw positions (sampling_rule.h), prefetch the neighbours
//   read     read the neighbours, check them, prefetch their relabel slots (and read edge ids)
//   relabel  local ids in order of first appearance
// Addresses instead of positions travel between the stages, so that partitions cost nothing after the draw.
#pragma once
#include <cstdint>

#include "core/error.h"
#include "core/graph_view.h"
#include "core/keyed_random.h"
#include "core/pick_set.h"
#include "core/relabel_table.h"
#include "core/sampling_rule.h"
#include "core/scratch.h"
#include "core/vector_draws.h"

namespace hopfeed {

/// What one edge type has gathered in a batch so far.
struct EdgeScratch {
  ScratchArray<std::uint32_t> sources;  // local ids, all hops
  ScratchArray<std::int64_t> edge_ids;
  ScratchArray<std::uint32_t> per_dst;  // one count per expanded destination
  std::size_t num_edges = 0;
};

/// Where damage was found; the caller knows the file names.
struct DamagedRow {
  enum class What { kOffsets, kSource } what;
  int partition;
  std::int64_t row;    // kOffsets: row of the partition
  std::int64_t value;  // kSource: the id that is out of range
};

struct ExpandOptions {
  std::int64_t fanout = -1;
  bool replace = false;
  bool edge_ids = false;
};

/// Scratch that all edge types of a sampler share.
struct ExpandScratch {
  static constexpr std::uint32_t kGroup = DrawRows::kRows;
  struct Group {
    ScratchArray<std::uint64_t> at;       // address of each drawn index; after `read` the node itself
    ScratchArray<std::uint64_t> edge_at;  // address of each drawn edge id
    std::size_t total = 0;
  };
  struct Row {
    std::uint64_t index_at, edge_at;  // addresses of the row's first index and edge id
    std::uint64_t degree, drawn, original_id;
    static constexpr std::uint32_t kNoLane = ~0u;
    std::uint32_t lane = kNoLane;  // where its draws are, if they were made in vector lanes
  };
  Group groups[3];
  Row rows[kGroup];
  DrawRows lanes;
  DrawPicks lane_picks;
  ScratchArray<std::uint32_t> picks;
  ScratchArray<std::uint64_t> wide_picks;
  PickSet pick_set;
};

template <class Index, class Relabel>
class RowExpander {
 public:
  static constexpr std::uint32_t kGroup = ExpandScratch::kGroup;

  RowExpander(const CscView& csc, const ExpandOptions& options, NodeStream stream, ExpandScratch& scratch,
              LocalNodes& dst, ScratchArray<std::int64_t>& dst_original_ids, LocalNodes& src,
              Relabel& relabel, EdgeScratch& edges)
      : csc_(csc),
        options_(options),
        stream_(stream),
        scratch_(scratch),
        dst_(dst),
        dst_original_ids_(dst_original_ids),
        src_(src),
        relabel_(relabel),
        edges_(edges),
        edge_id_bytes_(element_bytes(csc.edge_id_type)),
        num_src_(static_cast<std::uint64_t>(csc.num_src_nodes)) {}

  /// Expands destinations with local ids [lo, hi). Throws DamagedRow.
  void expand(std::uint32_t lo, std::uint32_t hi) {
    lo_ = lo;
    hi_ = hi;
    const std::uint32_t groups = (hi - lo + kGroup - 1) / kGroup;
    edges_.per_dst.reserve(hi);
    dst_original_ids_.reserve(hi);
    if (groups > 0) fetch(0);
    if (groups > 1) fetch(1);
    if (groups > 0) draw(0);
    for (std::uint32_t g = 0; g <= groups; ++g) {
      if (g + 2 < groups) fetch(g + 2);
      if (g + 1 < groups) draw(g + 1);
      if (g < groups) read(g);
      if (g > 0) relabel(g - 1);
    }
  }

 private:
  using Group = ExpandScratch::Group;
  using Row = ExpandScratch::Row;

  std::uint32_t begin_of(std::uint32_t group) const { return lo_ + group * kGroup; }
  std::uint32_t end_of(std::uint32_t group) const {
    return hi_ - begin_of(group) < kGroup ? hi_ : begin_of(group) + kGroup;
  }

  int partition(std::int64_t node) const {
    return csc_.parts.size() == 1 ? 0 : partition_of(csc_.partition_offsets, node);
  }

  void fetch(std::uint32_t group) const {
    for (std::uint32_t i = begin_of(group); i < end_of(group); ++i) {
      const std::int64_t node = dst_.ids[i];
      const int p = partition(node);
      __builtin_prefetch(csc_.parts[p].rows + (node - csc_.partition_offsets[p]));
    }
  }

  // Reads one row record and checks it: a damaged offset must never become an address.
  std::size_t read_row(std::uint32_t local, Row& row) {
    const std::int64_t node = dst_.ids[local];
    const int p = partition(node);
    const CscPart& part = csc_.parts[p];
    const std::int64_t r = node - csc_.partition_offsets[p];
    const std::uint64_t begin = static_cast<std::uint64_t>(part.rows[r].offset),
                        end = static_cast<std::uint64_t>(part.rows[r + 1].offset);
    if (begin > end || end > static_cast<std::uint64_t>(part.num_edges))
      throw DamagedRow{DamagedRow::What::kOffsets, p, r, 0};
    const std::int64_t original = part.rows[r].original_id;
    dst_original_ids_[local] = original;
    row = {.index_at = reinterpret_cast<std::uint64_t>(part.indices) + begin * sizeof(Index),
           .edge_at = reinterpret_cast<std::uint64_t>(part.edge_ids) + begin * edge_id_bytes_,
           .degree = end - begin,
           .drawn = num_drawn(end - begin, options_.fanout, options_.replace),
           .original_id = static_cast<std::uint64_t>(original)};
    edges_.per_dst[local] = static_cast<std::uint32_t>(row.drawn);
    return row.drawn;
  }

  void draw(std::uint32_t g) {
    Group& group = scratch_.groups[g % 3];
    const std::uint32_t begin = begin_of(g), n = end_of(g) - begin;
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < n; ++i) total += read_row(begin + i, scratch_.rows[i]);
    group.at.reserve(total);
    if (options_.edge_ids) group.edge_at.reserve(total);
    if (options_.fanout >= 0 && options_.fanout <= kMaxLaneDraws) draw_in_lanes(n);
    std::uint64_t *at = group.at.data(), *edge_at = group.edge_at.data();
    for (std::uint32_t i = 0; i < n; ++i) {
      const Row& row = scratch_.rows[i];
      if (row.drawn == 0) continue;
      if (takes_all(row)) {
        place(at, edge_at, row, [](std::uint64_t j) { return j; });
      } else if (row.lane != Row::kNoLane) {
        const std::uint64_t* picks = scratch_.lane_picks.pick + row.lane;
        place(at, edge_at, row, [picks](std::uint64_t j) { return picks[j * DrawRows::kRows]; });
      } else if (row.degree <= UINT32_MAX) {
        const std::uint32_t* picks = pick(row);
        place(at, edge_at, row, [picks](std::uint64_t j) { return std::uint64_t{picks[j]}; });
      } else {
        const std::uint64_t* picks = pick_wide(row);
        place(at, edge_at, row, [picks](std::uint64_t j) { return picks[j]; });
      }
      at += row.drawn;
      edge_at += options_.edge_ids ? row.drawn : 0;
    }
    group.total = total;
  }

  bool takes_all(const Row& row) const {
    return options_.fanout < 0 || (row.drawn == row.degree && !options_.replace);
  }

  // One lane per row that has to draw. A row whose numbers may have to be drawn again goes the serial way: it gets no lane.
  void draw_in_lanes(std::uint32_t n) {
    DrawRows& lanes = scratch_.lanes;
    lanes.count = 0;
    std::uint32_t row_of[kGroup];
    for (std::uint32_t i = 0; i < n; ++i) {
      const Row& row = scratch_.rows[i];
      row_of[lanes.count] = i;
      lanes.node[lanes.count] = row.original_id;
      lanes.degree[lanes.count] = row.degree;
      lanes.count += row.drawn > 0 && !takes_all(row) && row.degree <= UINT32_MAX;
    }
    if (lanes.count == 0) return;
    const std::uint32_t again = draw_rows(lanes, static_cast<std::uint32_t>(options_.fanout),
                                          options_.replace ? Replacement::kWith : Replacement::kWithout,
                                          stream_, scratch_.lane_picks);
    for (std::uint32_t lane = 0; lane < lanes.count; ++lane)
      if ((again >> lane & 1) == 0) scratch_.rows[row_of[lane]].lane = lane;
  }

  template <class Position>
  void place(std::uint64_t* at, std::uint64_t* edge_at, const Row& row, Position position) const {
    for (std::uint64_t j = 0; j < row.drawn; ++j) {
      at[j] = row.index_at + position(j) * sizeof(Index);
      __builtin_prefetch(reinterpret_cast<const void*>(at[j]));
    }
    if (!options_.edge_ids) return;
    for (std::uint64_t j = 0; j < row.drawn; ++j) {
      edge_at[j] = row.edge_at + position(j) * edge_id_bytes_;
      __builtin_prefetch(reinterpret_cast<const void*>(edge_at[j]));
    }
  }

  NodeStream stream_of(const Row& row) const {
    return {stream_.key, stream_.retry_key, row.original_id, stream_.tree};
  }

  const std::uint32_t* pick(const Row& row) {
    const std::uint32_t k = static_cast<std::uint32_t>(row.drawn),
                        degree = static_cast<std::uint32_t>(row.degree);
    scratch_.picks.reserve(k + 4);
    std::uint32_t* picks = scratch_.picks.data();
    if (options_.replace) {
      pick_with_replacement(stream_of(row), degree, k, picks);
    } else if (k <= kMaxLaneDraws) {
      LinearSeen seen;
      pick_without_replacement(stream_of(row), degree, k, picks, seen);
    } else {
      scratch_.pick_set.begin(k);
      pick_without_replacement(stream_of(row), degree, k, picks, scratch_.pick_set);
    }
    return picks;
  }

  const std::uint64_t* pick_wide(const Row& row) {
    const std::uint32_t k = static_cast<std::uint32_t>(row.drawn);
    scratch_.wide_picks.reserve(k);
    std::uint64_t* picks = scratch_.wide_picks.data();
    if (options_.replace) {
      pick_with_replacement_wide(stream_of(row), row.degree, k, picks);
    } else {
      scratch_.pick_set.begin(k);
      pick_without_replacement_wide(stream_of(row), row.degree, k, picks, scratch_.pick_set);
    }
    return picks;
  }

  void read(std::uint32_t g) {
    Group& group = scratch_.groups[g % 3];
    std::uint64_t* at = group.at.data();
    for (std::size_t j = 0; j < group.total; ++j) {
      const std::int64_t node = *reinterpret_cast<const Index*>(at[j]);
      if (static_cast<std::uint64_t>(node) >= num_src_)
        throw DamagedRow{DamagedRow::What::kSource, 0, 0, node};
      at[j] = static_cast<std::uint64_t>(node);
      relabel_.prefetch(node);
    }
    if (options_.edge_ids) read_edge_ids(group);
  }

  // Groups are read in order, so the ids of this group follow those of the groups before.
  void read_edge_ids(const Group& group) {
    edges_.edge_ids.reserve(num_edge_ids_read() + group.total);
    std::int64_t* out = edges_.edge_ids.data() + num_edge_ids_read();
    for (std::size_t j = 0; j < group.total; ++j) {
      const void* at = reinterpret_cast<const void*>(group.edge_at[j]);
      out[j] = edge_id_bytes_ == sizeof(std::int32_t) ? *static_cast<const std::int32_t*>(at)
                                                      : *static_cast<const std::int64_t*>(at);
    }
    edge_ids_ahead_ += group.total;
  }
  std::size_t num_edge_ids_read() const { return edges_.num_edges + edge_ids_ahead_; }

  void relabel(std::uint32_t g) {
    const Group& group = scratch_.groups[g % 3];
    relabel_.make_room(src_, group.total);
    edges_.sources.reserve(edges_.num_edges + group.total);
    std::uint32_t* out = edges_.sources.data() + edges_.num_edges;
    for (std::size_t j = 0; j < group.total; ++j)
      out[j] = relabel_.insert(src_, static_cast<std::int64_t>(group.at[j]));
    edges_.num_edges += group.total;
    if (options_.edge_ids) edge_ids_ahead_ -= group.total;
  }

  const CscView& csc_;
  const ExpandOptions options_;
  const NodeStream stream_;
  ExpandScratch& scratch_;
  LocalNodes& dst_;
  ScratchArray<std::int64_t>& dst_original_ids_;
  LocalNodes& src_;
  Relabel& relabel_;
  EdgeScratch& edges_;
  const std::size_t edge_id_bytes_;
  const std::uint64_t num_src_;
  std::uint32_t lo_ = 0, hi_ = 0;
  std::size_t edge_ids_ahead_ = 0;  // edge ids of groups that are read but not relabelled
};

}  // namespace hopfeed
