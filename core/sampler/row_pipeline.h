// Runs one hop of one edge type: draws neighbours for a range of destination nodes and gives them local ids.
// The pipeline of neighbor_sampler.h lives here.
//
// Groups of kGroup destinations pass five stages, five groups in flight, a row of each in turn: what waits
// for memory and what computes alternate in short steps, so that the core always has as many cache misses
// under way as it can.
//
//   fetch   prefetch the row record
//   look    read offsets and original id; after the last row of the group, draw for all (a picker's business)
//   place   pick positions, turn them into addresses, prefetch the neighbours
//   read    read the neighbours, prefetch what the relabel table has of them
//   insert  give them local ids in order of first appearance
//
// A picker that must read before it can draw does so a step later, behind a prefetch or two, and all that
// follows comes a step later too. Addresses instead of positions travel between the stages, so that
// partitions cost nothing after `look`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/base/scratch.h"
#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/picker.h"
#include "core/draws/relabel_table.h"

namespace hopfeed {

struct ExpandOptions {
  bool edge_ids = false;   // gather original edge positions
  bool positions = false;  // and positions in the dataset's order
  int node_bits = 0;       // in disjoint batches an id is tree << node_bits | node
};

/// EdgeScratch is what one edge type has gathered in a batch so far.
struct EdgeScratch {
  ScratchArray<std::uint32_t> sources;  // local ids, all hops
  ScratchArray<std::int64_t> edge_ids;
  ScratchArray<std::int64_t> positions;  // of the edges in the dataset's order
  ScratchArray<std::uint32_t> per_dst;   // one count per expanded destination
  std::size_t num_edges = 0;

  std::size_t bytes() const {
    return sources.bytes() + edge_ids.bytes() + positions.bytes() + per_dst.bytes();
  }
  /// Returns what bytes() comes to at most with so many edges into so many destinations.
  static std::size_t max_bytes(std::size_t edges, std::size_t destinations, const ExpandOptions& options) {
    return decltype(sources)::max_bytes(edges) + decltype(per_dst)::max_bytes(destinations) +
           decltype(edge_ids)::max_bytes(options.edge_ids ? edges : 0) +
           decltype(positions)::max_bytes(options.positions ? edges : 0);
  }
};

/// ExpandScratch is scratch that all edge types of a sampler share.
struct ExpandScratch {
  /// Placed is one group from `place` to `insert`.
  struct Placed {
    ScratchArray<std::uint64_t> at;        // address of each drawn index; once read, the neighbour
    ScratchArray<std::uint64_t> edge_at;   // address of each drawn edge id
    ScratchArray<std::int64_t> positions;  // of each drawn edge
    ScratchArray<std::uint64_t> trees;     // of each drawn edge, shifted to where it belongs in an id
    std::size_t total = 0;
  };
  DrawnGroup drawn[3];
  Placed placed[3];
  PickScratch picks;

  std::size_t bytes() const {
    std::size_t sum = picks.bytes();
    for (const Placed& group : placed)
      sum += group.at.bytes() + group.edge_at.bytes() + group.positions.bytes() + group.trees.bytes();
    return sum;
  }
  /// Returns what bytes() comes to at most where destinations that are expanded together give `group`
  /// neighbours, and pickers take `most`.
  static std::size_t max_bytes(std::size_t group, const ExpandOptions& options, bool trees,
                               const PickScratch::Most& most) {
    return std::extent_v<decltype(placed)> *
               (decltype(Placed::at)::max_bytes(group) +
                decltype(Placed::edge_at)::max_bytes(options.edge_ids ? group : 0) +
                decltype(Placed::positions)::max_bytes(options.positions ? group : 0) +
                decltype(Placed::trees)::max_bytes(trees ? group : 0)) +
           PickScratch::max_bytes(most);
  }
};

/// ExpandEnds names the edge type to expand, and the nodes at its ends.
struct ExpandEnds {
  const CscView& csc;
  LocalNodes& dst;
  ScratchArray<std::int64_t>& dst_original_ids;
  LocalNodes& src;
  EdgeScratch& edges;
};

template <class Index, class Relabel, Picker P>
class RowPipeline {
 public:
  static constexpr std::uint32_t kGroup = DrawnGroup::kRows;
  static constexpr bool kTrees = Relabel::kTrees;

  RowPipeline(const ExpandEnds& ends, const ExpandOptions& options, P picker, Relabel& relabel,
              ExpandScratch& scratch)
      : csc_(ends.csc),
        options_(options),
        scratch_(scratch),
        picker_(picker),
        dst_(ends.dst),
        dst_original_ids_(ends.dst_original_ids),
        src_(ends.src),
        relabel_(relabel),
        edges_(ends.edges),
        edge_id_bytes_(element_bytes(csc_.edge_id_type)),
        num_src_(static_cast<std::uint64_t>(csc_.num_src_nodes)) {}

  /// Expands destinations with local ids [lo, hi). Throws DamagedRow.
  void expand(std::uint32_t lo, std::uint32_t hi) {
    lo_ = lo;
    num_rows_ = hi - lo;
    edges_.per_dst.reserve(hi);
    dst_original_ids_.reserve(hi);
    for (DrawnGroup& group : scratch_.drawn) group.count = 0, group.most = 0;
    for (Placed& group : scratch_.placed) group.total = 0;
    const std::uint32_t groups = (num_rows_ + kGroup - 1) / kGroup;
    for (std::uint32_t step = 0; num_rows_ > 0 && step < groups + 4 + P::kStepsToDraw; ++step) run(step);
  }

 private:
  using Placed = ExpandScratch::Placed;

  // A Cursor is the next place in each array of a group that is being placed.
  struct Cursor {
    std::uint64_t *at, *edge_at;
    std::int64_t* positions;
    std::uint64_t* trees;
  };

  // Runs step s: fetch group s, look at group s - 1, place group s - 2, read group s - 3, insert group s - 4;
  // from `place` on one group less where the draws are a step behind the look.
  void run(std::uint32_t step) {
    DrawnGroup &looked = scratch_.drawn[(step + 2) % 3],
               &to_draw = scratch_.drawn[(step + 2 - P::kStepsToDraw) % 3],
               &drawn = scratch_.drawn[(step + 1 - P::kStepsToDraw) % 3];
    Placed &placed = scratch_.placed[step % 3], &read = scratch_.placed[(step + 2) % 3],
           &inserted = scratch_.placed[(step + 1) % 3];
    const std::uint32_t to_fetch = rows_of(step), to_look = step > 0 ? rows_of(step - 1) : 0,
                        fetch_from = lo_ + step * kGroup, look_from = fetch_from - kGroup;
    looked.most = 0;
    looked.first = look_from;
    Cursor cursor = begin_placing(placed, drawn.most);
    make_room(inserted.total);
    typename Relabel::Inserter inserter(relabel_, src_, edges_.sources.data());
    const std::size_t first = edges_.num_edges;
    std::size_t num_read = 0, num_inserted = 0;
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      if (i < to_look) looked.most += look(look_from + i, looked.rows[i]);
      if (i < drawn.count) place(drawn, i, cursor);
      for (const std::size_t end = read.total * (i + 1) / kGroup; num_read < end; ++num_read)
        inserter.prefetch(read_neighbor(read, num_read));
      for (const std::size_t end = inserted.total * (i + 1) / kGroup; num_inserted < end; ++num_inserted)
        inserter.insert(inserted.at[num_inserted], first + num_inserted);
    }
    inserter.close();
    if (options_.edge_ids) read_edge_ids(inserted);
    if (options_.positions)
      std::copy_n(inserted.positions.data(), inserted.total, edges_.positions.data() + first);
    edges_.num_edges += inserted.total;
    looked.count = to_look;
    placed.total = static_cast<std::size_t>(cursor.at - placed.at.data());
    // Fetching comes here, so that the draws have cache misses to run beside.
    for (std::uint32_t row = 0; row < to_fetch; ++row) fetch(fetch_from + row);
    if (to_draw.count > 0) picker_.draw(to_draw);
    if constexpr (ClosingInPicker<P>) picker_.close_in(looked);
  }

  Cursor begin_placing(Placed& placed, std::size_t most) const {
    placed.at.reserve(most);
    if (options_.edge_ids) placed.edge_at.reserve(most);
    if (options_.positions) placed.positions.reserve(most);
    if constexpr (kTrees) placed.trees.reserve(most);
    return {placed.at.data(), placed.edge_at.data(), placed.positions.data(), placed.trees.data()};
  }

  std::uint64_t read_neighbor(Placed& group, std::size_t i) const {
    std::uint64_t& at = group.at[i];
    const auto node = static_cast<std::uint64_t>(std::int64_t{*reinterpret_cast<const Index*>(at)});
    if (node >= num_src_) throw DamagedRow{DamagedRow::What::kSource, 0, 0, static_cast<std::int64_t>(node)};
    if constexpr (kTrees) return at = group.trees[i] | node;
    return at = node;
  }

  std::uint32_t rows_of(std::uint32_t group) const {
    const std::uint64_t begin = std::uint64_t{group} * kGroup;
    return begin >= num_rows_
               ? 0
               : static_cast<std::uint32_t>(std::min<std::uint64_t>(kGroup, num_rows_ - begin));
  }

  std::int64_t node_of(std::uint32_t local) const {
    if constexpr (kTrees) return dst_.ids[local] & ((std::int64_t{1} << options_.node_bits) - 1);
    return dst_.ids[local];
  }
  std::uint32_t tree_of(std::uint32_t local) const {
    if constexpr (kTrees) return static_cast<std::uint32_t>(dst_.ids[local] >> options_.node_bits);
    return 0;
  }

  int partition(std::int64_t node) const {
    return csc_.parts.size() == 1 ? 0 : partition_of(csc_.partition_offsets, node);
  }

  void fetch(std::uint32_t local) const {
    const std::int64_t node = node_of(local);
    const int p = partition(node);
    const RowRecord* row = csc_.parts[p].rows + (node - csc_.partition_offsets[p]);
    prefetch_line(row);
    prefetch_line(row + 1);  // where the row ends; in another line for one row of four
  }

  // Reads one row record and checks it: a damaged offset must never become an address.
  std::size_t look(std::uint32_t local, DrawnRow& row) {
    const std::int64_t node = node_of(local);
    // This comes before original_ids is written at `local`: that store has the low bits of this load's
    // address, which makes the core wait.
    row.tree = tree_of(local);
    const int p = partition(node);
    const CscPart& part = csc_.parts[p];
    const std::int64_t r = node - csc_.partition_offsets[p];
    const std::uint64_t begin = static_cast<std::uint64_t>(part.rows[r].offset),
                        end = static_cast<std::uint64_t>(part.rows[r + 1].offset);
    if (begin > end || end > static_cast<std::uint64_t>(part.num_edges))
      throw DamagedRow{DamagedRow::What::kOffsets, p, r, 0};
    const std::int64_t original = part.rows[r].original_id;
    dst_original_ids_[local] = original;
    row.index_at = reinterpret_cast<std::uint64_t>(part.indices) + begin * sizeof(Index);
    row.edge_at = reinterpret_cast<std::uint64_t>(part.edge_ids) + begin * edge_id_bytes_;
    row.position = static_cast<std::uint64_t>(part.first_edge) + begin;
    row.degree = end - begin;
    row.original_id = static_cast<std::uint64_t>(original);
    row.node = node;
    row.order_at = 0;
    row.lane = DrawnRow::kNoLane;
    picker_.look(row, p, static_cast<std::int64_t>(begin));
    return row.most;
  }

  void place(const DrawnGroup& group, std::uint32_t i, Cursor& cursor) {
    const DrawnRow& row = group.rows[i];
    std::uint64_t drawn = 0;
    if (row.most > 0) {
      picker_.pick(group, row, [&](std::uint64_t count, auto place, auto position) {
        drawn = count;
        place_at(row, cursor, count, place, position);
      });
    }
    edges_.per_dst[group.first + i] = static_cast<std::uint32_t>(drawn);
  }

  template <class Place, class Position>
  void place_at(const DrawnRow& row, Cursor& cursor, std::uint64_t count, Place place,
                Position position) const {
    const std::uint64_t begin = row.index_at;
    std::uint64_t* at = cursor.at;
    for (std::uint64_t j = 0; j < count; ++j) {
      at[j] = begin + place(j) * sizeof(Index);
      prefetch_line(reinterpret_cast<const void*>(at[j]));
    }
    cursor.at += count;
    if constexpr (kTrees) {
      std::fill_n(cursor.trees, count, std::uint64_t{row.tree} << options_.node_bits);
      cursor.trees += count;
    }
    if (options_.positions) {
      for (std::uint64_t j = 0; j < count; ++j)
        cursor.positions[j] = static_cast<std::int64_t>(row.position + row.position_of(position(j)));
      cursor.positions += count;
    }
    if (!options_.edge_ids) return;
    for (std::uint64_t j = 0; j < count; ++j) {
      cursor.edge_at[j] = row.edge_at + row.position_of(position(j)) * edge_id_bytes_;
      prefetch_line(reinterpret_cast<const void*>(cursor.edge_at[j]));
    }
    cursor.edge_at += count;
  }

  void make_room(std::size_t more) {
    relabel_.make_room(src_, more);
    edges_.sources.reserve(edges_.num_edges + more);
    if (options_.edge_ids) edges_.edge_ids.reserve(edges_.num_edges + more);
    if (options_.positions) edges_.positions.reserve(edges_.num_edges + more);
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
  ExpandScratch& scratch_;
  P picker_;
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
