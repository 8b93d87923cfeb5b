// One hop of one edge type: draws neighbours for a range of destination nodes and gives them local ids. The pipeline of
// neighbor_sampler.h lives here.
//
// Groups of kGroup destinations pass five stages, five groups in flight, a row of each in turn: what waits for memory and what
// computes alternate in short steps, so that the core always has as many cache misses under way as it can.
//   fetch   prefetch the row record
//   look    read offsets and original id; after the last row of the group, draw positions for all (core/vector_draws.h)
//   place   turn positions into addresses, prefetch the neighbours
//   read    read the neighbours, prefetch what the relabel table has of them
//   insert  give them local ids in order of first appearance
// Addresses instead of positions travel between the stages, so that partitions cost nothing after `look`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

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
  struct Row {
    std::uint64_t index_at, edge_at;  // addresses of the row's first index and edge id
    std::uint64_t degree, drawn, original_id;
    static constexpr std::uint32_t kNoLane = ~0u;
    std::uint32_t lane = kNoLane;  // where its draws are, if they were made in vector lanes
  };
  /// One group between `look` and `place`.
  struct Drawn {
    Row rows[kGroup];
    DrawPicks picks;
    std::uint32_t count = 0;  // of the rows
    std::size_t total = 0;    // of what they drew
  };
  /// One group from `place` to `insert`.
  struct Placed {
    ScratchArray<std::uint64_t> at;       // address of each drawn index; once read, the neighbour
    ScratchArray<std::uint64_t> edge_at;  // address of each drawn edge id
    std::size_t total = 0;
  };
  Drawn drawn[2];
  Placed placed[3];
  DrawRows lanes;
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
    num_rows_ = hi - lo;
    edges_.per_dst.reserve(hi);
    dst_original_ids_.reserve(hi);
    for (Drawn& group : scratch_.drawn) group.count = 0, group.total = 0;
    for (Placed& group : scratch_.placed) group.total = 0;
    const std::uint32_t groups = (num_rows_ + kGroup - 1) / kGroup;
    for (std::uint32_t step = 0; num_rows_ > 0 && step < groups + 4; ++step) run(step);
  }

 private:
  using Row = ExpandScratch::Row;
  using Drawn = ExpandScratch::Drawn;
  using Placed = ExpandScratch::Placed;

  // Step s: fetch group s, look at group s - 1, place group s - 2, read group s - 3, insert group s - 4.
  void run(std::uint32_t step) {
    Drawn &looked = scratch_.drawn[step % 2], &drawn = scratch_.drawn[(step + 1) % 2];
    Placed &placed = scratch_.placed[step % 3], &read = scratch_.placed[(step + 2) % 3],
           &inserted = scratch_.placed[(step + 1) % 3];
    const std::uint32_t to_fetch = rows_of(step), to_look = step > 0 ? rows_of(step - 1) : 0,
                        fetch_from = lo_ + step * kGroup, look_from = fetch_from - kGroup;
    looked.total = 0;
    placed.total = drawn.total;
    placed.at.reserve(drawn.total);
    if (options_.edge_ids) placed.edge_at.reserve(drawn.total);
    make_room(inserted.total);
    std::uint64_t *at = placed.at.data(), *edge_at = placed.edge_at.data();
    typename Relabel::Inserter inserter(relabel_, src_, edges_.sources.data());
    const std::size_t first = edges_.num_edges;
    std::size_t num_read = 0, num_inserted = 0;
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      if (i < to_look) looked.total += look(look_from + i, looked.rows[i]);
      if (i < drawn.count) place(drawn, drawn.rows[i], at, edge_at);
      for (const std::size_t end = read.total * (i + 1) / kGroup; num_read < end; ++num_read)
        inserter.prefetch(read_neighbor(read.at[num_read]));
      for (const std::size_t end = inserted.total * (i + 1) / kGroup; num_inserted < end; ++num_inserted)
        inserter.insert(inserted.at[num_inserted], first + num_inserted);
    }
    inserter.close();
    if (options_.edge_ids) read_edge_ids(inserted);
    edges_.num_edges += inserted.total;
    looked.count = to_look;
    // Here, so that the draws have cache misses to run beside.
    for (std::uint32_t row = 0; row < to_fetch; ++row) fetch(fetch_from + row);
    if (looked.total > 0 && options_.fanout >= 0 && options_.fanout <= kMaxLaneDraws) draw_in_lanes(looked);
  }

  std::uint64_t read_neighbor(std::uint64_t& at) const {
    const auto node = static_cast<std::uint64_t>(std::int64_t{*reinterpret_cast<const Index*>(at)});
    if (node >= num_src_) throw DamagedRow{DamagedRow::What::kSource, 0, 0, static_cast<std::int64_t>(node)};
    return at = node;
  }

  std::uint32_t rows_of(std::uint32_t group) const {
    const std::uint64_t begin = std::uint64_t{group} * kGroup;
    return begin >= num_rows_
               ? 0
               : static_cast<std::uint32_t>(std::min<std::uint64_t>(kGroup, num_rows_ - begin));
  }

  int partition(std::int64_t node) const {
    return csc_.parts.size() == 1 ? 0 : partition_of(csc_.partition_offsets, node);
  }

  void fetch(std::uint32_t local) const {
    const std::int64_t node = dst_.ids[local];
    const int p = partition(node);
    __builtin_prefetch(csc_.parts[p].rows + (node - csc_.partition_offsets[p]));
  }

  // Reads one row record and checks it: a damaged offset must never become an address.
  std::size_t look(std::uint32_t local, Row& row) {
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

  bool takes_all(const Row& row) const {
    return options_.fanout < 0 || (row.drawn == row.degree && !options_.replace);
  }

  // One lane per row that has to draw. A row whose numbers may have to be drawn again goes the serial way: it gets no lane.
  void draw_in_lanes(Drawn& group) {
    DrawRows& lanes = scratch_.lanes;
    lanes.count = 0;
    std::uint32_t row_of[kGroup];
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const Row& row = group.rows[i];
      row_of[lanes.count] = i;
      lanes.node[lanes.count] = row.original_id;
      lanes.degree[lanes.count] = row.degree;
      lanes.count += row.drawn > 0 && !takes_all(row) && row.degree <= UINT32_MAX;
    }
    if (lanes.count == 0) return;
    const std::uint32_t again =
        draw_rows(lanes, static_cast<std::uint32_t>(options_.fanout),
                  options_.replace ? Replacement::kWith : Replacement::kWithout, stream_, group.picks);
    for (std::uint32_t lane = 0; lane < lanes.count; ++lane)
      if ((again >> lane & 1) == 0) group.rows[row_of[lane]].lane = lane;
  }

  void place(const Drawn& group, const Row& row, std::uint64_t*& at, std::uint64_t*& edge_at) {
    if (row.lane != Row::kNoLane) {
      const std::uint64_t* picks = group.picks.pick + row.lane;
      place_at(row, at, edge_at, [picks](std::uint64_t j) { return picks[j * DrawRows::kRows]; });
    } else if (takes_all(row)) {
      place_at(row, at, edge_at, [](std::uint64_t j) { return j; });
    } else if (row.drawn > 0 && row.degree <= UINT32_MAX) {
      const std::uint32_t* picks = pick(row);
      place_at(row, at, edge_at, [picks](std::uint64_t j) { return std::uint64_t{picks[j]}; });
    } else if (row.drawn > 0) {
      const std::uint64_t* picks = pick_wide(row);
      place_at(row, at, edge_at, [picks](std::uint64_t j) { return picks[j]; });
    }
  }

  template <class Position>
  void place_at(const Row& row, std::uint64_t*& at, std::uint64_t*& edge_at, Position position) const {
    const std::uint64_t count = row.drawn, begin = row.index_at;
    for (std::uint64_t j = 0; j < count; ++j) {
      at[j] = begin + position(j) * sizeof(Index);
      __builtin_prefetch(reinterpret_cast<const void*>(at[j]));
    }
    at += count;
    if (!options_.edge_ids) return;
    for (std::uint64_t j = 0; j < count; ++j) {
      edge_at[j] = row.edge_at + position(j) * edge_id_bytes_;
      __builtin_prefetch(reinterpret_cast<const void*>(edge_at[j]));
    }
    edge_at += count;
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

  void make_room(std::size_t more) {
    relabel_.make_room(src_, more);
    edges_.sources.reserve(edges_.num_edges + more);
    if (options_.edge_ids) edges_.edge_ids.reserve(edges_.num_edges + more);
  }

  void read_edge_ids(const Placed& group) {
    std::int64_t* out = edges_.edge_ids.data() + edges_.num_edges;
    for (std::size_t j = 0; j < group.total; ++j) {
      const void* at = reinterpret_cast<const void*>(group.edge_at[j]);
      out[j] = edge_id_bytes_ == sizeof(std::int32_t) ? *static_cast<const std::int32_t*>(at)
                                                      : *static_cast<const std::int64_t*>(at);
    }
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
  std::uint32_t lo_ = 0, num_rows_ = 0;
};

}  // namespace hopfeed
