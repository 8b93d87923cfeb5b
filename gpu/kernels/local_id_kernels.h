// These kernels give the sources of drawn edges local ids in order of first appearance. DrawInPlace draws
// them too.
//
// A hash table per node type has of each node of the batch its local id, or, while a step is under way, the
// least number of the edges that bring it: kPending | number, by an atomic minimum, which leaves local ids
// alone since they are smaller. Then each edge that holds its node's number is a first appearance; a prefix
// sum over these gives the new local ids. Which slot a node comes to hangs on the order of the threads, its
// local id does not.
//
// The edges of a step have numbers in their order. Some may stand for no edge: where few are drawn of each
// row, a row has as many numbers as its fanout (DrawInPlace), and the same prefix sum closes the gaps.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/row_kernels.h"

namespace hopfeed::gpu {

inline constexpr std::uint64_t kPending = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};  // there is no such edge

/// An IdTable maps ids (node, or tree and node) to values: local ids, or pending numbers, all below 2^32. It
/// is at most half full, so that a search ends. A free place is all ones, which no id and no value is.
struct IdTable {
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  /// Ids below 2^32 - 1 lie in one word with their values, (id << 32 | value), so that one atomic does for
  /// both; others in two, side by side.
  bool narrow = false;
  int bits = 0;
  std::uint64_t* words = nullptr;

  HOPFEED_HOST_DEVICE static std::uint64_t num_words(int bits, bool narrow) {
    return std::uint64_t{narrow ? 1u : 2u} << bits;
  }

  /// Returns the slot of an id, whose value is then no more than `value`.
  HOPFEED_HOST_DEVICE std::uint64_t insert(std::uint64_t id, std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::uint64_t at = id * 0x9E3779B97F4A7C15u >> (64 - bits);
    while (!(narrow ? take_narrow(at, id, value) : take_wide(at, id, value))) at = (at + 1) & mask;
    return at;
  }
  HOPFEED_HOST_DEVICE std::uint64_t id(std::uint64_t slot) const {
    return words[narrow ? slot : 2 * slot] >> (narrow ? 32 : 0);
  }
  HOPFEED_HOST_DEVICE std::uint64_t value(std::uint64_t slot) const {
    return words[narrow ? slot : 2 * slot + 1] & UINT32_MAX;
  }
  HOPFEED_HOST_DEVICE void set(std::uint64_t slot, std::uint64_t id, std::uint64_t value) const {
    words[narrow ? slot : 2 * slot + 1] = narrow ? id << 32 | value : value;
  }

 private:
  /// Returns false where another id has the slot.
  HOPFEED_HOST_DEVICE bool take_narrow(std::uint64_t at, std::uint64_t id, std::uint64_t value) const {
    const std::uint64_t word = id << 32 | value;
    const std::uint64_t found = atomic_swap_if(&words[at], kFree, word);
    if (found == kFree) return true;
    if (found >> 32 != id) return false;
    if (found > word) atomic_min(&words[at], word);
    return true;
  }
  HOPFEED_HOST_DEVICE bool take_wide(std::uint64_t at, std::uint64_t id, std::uint64_t value) const {
    std::uint64_t found = atomic_read(&words[2 * at]);
    if (found == kFree) found = atomic_swap_if(&words[2 * at], kFree, id);
    if (found != kFree && found != id) return false;
    atomic_min(&words[2 * at + 1], value);
    return true;
  }
};

/// An IdStep is ids that become local ids together: the seeds of one entry, or the sources of one edge type
/// in a hop.
struct IdStep {
  IdTable table;
  std::uint64_t bound = 0;         // of the numbers
  std::uint64_t* slots = nullptr;  // [bound + 1], or kNoSlot, as the last one
  /// [bound + 1]: how many edges come before each, in the upper half, and first appearances in the lower.
  std::uint64_t* sums = nullptr;
  std::uint64_t* ids = nullptr;                 // local id -> id
  std::uint32_t* locals = nullptr;              // [all steps]
  const std::uint64_t* nodes_before = nullptr;  // cells: nodes that have a local id
  std::uint64_t* nodes_after = nullptr;
  const std::uint64_t* edges_before = nullptr;  // cells: edges of earlier steps; null: of seeds
  std::uint64_t* edges_after = nullptr;
};

/// Item i of the streams, or one item if there are none, begins a batch: no counts, and its streams.
struct BeginBatch {
  std::uint64_t* counts;
  const NodeStream* host_streams;
  NodeStream* streams;
  std::uint64_t num_streams;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (i == 0) counts[BatchCells::kFlag] = counts[BatchCells::kZero] = 0;
    if (i < num_streams) streams[i] = host_streams[i];
  }
};

/// Item i of the seeds and one more inserts a seed.
struct InsertSeeds {
  IdStep step;
  const std::int64_t* seeds;
  std::uint64_t number;  // of the first in the batch
  int node_bits;         // of ids in trees; 0: there are none

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t tree = node_bits == 0 ? 0 : (number + i) << node_bits;
    step.slots[i] = i == step.bound
                        ? kNoSlot
                        : step.table.insert(tree | static_cast<std::uint64_t>(seeds[i]), kPending | i);
  }
};

/// Returns the slot of an edge's source. One that is no node has none.
HOPFEED_HOST_DEVICE inline std::uint64_t insert_source(const RowStep& rows, const IdStep& step, bool trees,
                                                       std::uint64_t row, std::int64_t source,
                                                       std::uint64_t number) {
  if (static_cast<std::uint64_t>(source) >= rows.edges.num_src) {
    raise(rows.flag, Fallback::kDamaged);
    return kNoSlot;
  }
  const std::uint64_t tree = trees ? std::uint64_t{rows.tree_of(row)} << rows.node_bits : std::uint64_t{0};
  return step.table.insert(tree | static_cast<std::uint64_t>(source), kPending | number);
}

/// Item t of row_bound * fanout + 1 does all of a hop of uniform draws of few up to the slots: it looks at
/// its row, draws, reads and inserts. Items of a row do the same work up to their own draw, side by side:
/// that is less than to pass it on. Numbers are row * fanout + draw, in any order of the rows.
struct DrawInPlace {
  RowStep rows;
  IdStep step;
  bool trees;
  std::uint64_t* places;  // [row_bound * fanout]; null: nobody asks for what else an edge has

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t t) const {
    const auto fanout = static_cast<std::uint32_t>(rows.fanout);
    const std::uint32_t k = static_cast<std::uint32_t>(t) / fanout,
                        j = static_cast<std::uint32_t>(t) % fanout;
    if (k >= rows.frontier()) {
      step.slots[t] = kNoSlot;
      return;
    }
    const std::uint64_t i = rows.row(k), number = i * fanout + j;
    LookedRow row;
    const std::uint64_t gives = RowLook(rows).look(i, row);
    if (j == 0) rows.notes.write(rows.expanded() + i, row, gives);
    if (j >= gives) {
      step.slots[number] = kNoSlot;
      return;
    }
    const std::uint64_t place = row.place + draw(row, i, j);
    const DevicePart& part = rows.edges.parts[EdgePlace::part(place)];
    const std::int64_t source = part.source(EdgePlace::position(place), rows.edges.index_bytes);
    if (places != nullptr) places[number] = place;
    step.slots[number] = insert_source(rows, step, trees, i, source, number);
  }

 private:
  /// Returns draw j of row i. Of draws without replacement those before it count.
  HOPFEED_HOST_DEVICE std::uint32_t draw(const LookedRow& row, std::uint64_t i, std::uint32_t j) const {
    if (rows.takes_all(row)) return j;
    const NodeStream stream = rows.stream->of(row.original_id, rows.tree_of(i));
    const auto population = static_cast<std::uint32_t>(row.population);
    if (rows.replace) return draw_below(stream, j, stream.words(j / 4).word[j % 4], population);
    std::uint32_t picks[kMaxOwnDraws];
    LinearSeen seen;
    pick_first_without_replacement(stream, population, static_cast<std::uint32_t>(rows.fanout), j + 1, picks,
                                   seen);
    return picks[j];
  }
};

/// Item e of bound + 1 reads the source of a drawn edge.
struct ReadEdges {
  RowStep rows;
  IdStep step;
  bool trees;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t e) const {
    const std::uint64_t place = e < rows.num_edges() ? rows.places[e] : kNoPlace;
    if (place == kNoPlace) {
      step.slots[e] = kNoSlot;
      return;
    }
    const DevicePart& part = rows.edges.parts[EdgePlace::part(place)];
    step.slots[e] =
        insert_source(rows, step, trees, rows.row_of[e], source_of(part, e, EdgePlace::position(place)), e);
  }

 private:
  /// Returns a source. Alias tables may carry the sources of a column, its own and the alias's, behind each
  /// entry.
  HOPFEED_HOST_DEVICE std::int64_t source_of(const DevicePart& part, std::uint64_t e,
                                             std::uint64_t position) const {
    constexpr int kEntry = static_cast<int>(sizeof(AliasEntry));
    if (rows.edges.alias_bytes <= kEntry) return part.source(position, rows.edges.index_bytes);
    const std::uint64_t column = rows.source_places[e] / 2, alias = rows.source_places[e] % 2;
    return read_int(part.aliases + column * static_cast<std::uint64_t>(rows.edges.alias_bytes) + kEntry,
                    rows.edges.index_bytes, alias);
  }
};

/// CountFirsts are the numbers of the scan behind it, which gives the sums.
struct CountFirsts {
  IdStep step;

  HOPFEED_HOST_DEVICE std::uint64_t number(std::uint64_t i) const {
    // Without a branch, so that a thread's reads go off together.
    const std::uint64_t slot = step.slots[i];
    const bool there = slot != kNoSlot;
    const bool first = step.table.value(there ? slot : 0) == (kPending | i);
    return there ? std::uint64_t{1} << 32 | std::uint64_t{first} : 0;
  }
};

/// Item i of bound + 1 gives a first appearance the next local id; the last one tells how many there are.
struct AssignFirsts {
  IdStep step;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t firsts = step.sums[i] & UINT32_MAX;
    if (i == step.bound) {
      *step.nodes_after = *step.nodes_before + firsts;
      if (step.edges_after != nullptr) *step.edges_after = *step.edges_before + (step.sums[i] >> 32);
      return;
    }
    if ((step.sums[i + 1] & UINT32_MAX) == firsts) return;
    const std::uint64_t slot = step.slots[i], id = step.table.id(slot), local = *step.nodes_before + firsts;
    step.ids[local] = id;
    step.table.set(slot, id, local);
  }
};

/// Item i of bound writes the local id of a seed: all of them are known now.
struct WriteSeeds {
  IdStep step;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    step.locals[i] = static_cast<std::uint32_t>(step.table.value(step.slots[i]));
  }
};

/// Item t of bound writes an edge: the local id of its source, and what else is asked of it.
struct WriteEdges {
  RowStep rows;
  IdStep step;
  std::uint32_t stride;         // numbers of a row; 0: row_of tells
  const std::uint64_t* places;  // where something is asked for
  std::int64_t* edge_ids;       // null: not asked for
  std::int64_t* positions;      // null: not asked for
  std::uint32_t* targets;       // null: not asked for

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t t) const {
    std::uint64_t i = t;
    const std::uint32_t k = stride == 0 ? 0 : static_cast<std::uint32_t>(t) / stride;
    if (stride != 0) i = row_in_place(k) * stride + static_cast<std::uint32_t>(t) % stride;
    const std::uint64_t slot = step.slots[i];
    if (slot == kNoSlot) return;
    const std::uint64_t row = stride == 0 ? rows.row_of[t] : row_in_place(k);
    const std::uint64_t e = *step.edges_before + (step.sums[i] >> 32);
    step.locals[e] = static_cast<std::uint32_t>(step.table.value(slot));
    if (targets != nullptr) targets[e] = static_cast<std::uint32_t>(rows.expanded() + row);
    if (edge_ids == nullptr && positions == nullptr) return;
    const DevicePart& part = rows.edges.parts[EdgePlace::part(places[i])];
    std::uint64_t position = EdgePlace::position(places[i]);
    if (part.order != nullptr) position = position_of(part, row, position);
    if (edge_ids != nullptr) edge_ids[e] = read_int(part.edge_ids, rows.edges.edge_id_bytes, position);
    if (positions != nullptr) positions[e] = part.first_edge + static_cast<std::int64_t>(position);
  }

 private:
  /// Returns the row of which the items k * stride and on are: they go in the order of the rows' places.
  HOPFEED_HOST_DEVICE std::uint64_t row_in_place(std::uint32_t k) const {
    return k < rows.frontier() ? rows.row(k) : k;
  }
  /// Returns the position in the row's own order.
  HOPFEED_HOST_DEVICE std::uint64_t position_of(const DevicePart& part, std::uint64_t row,
                                                std::uint64_t in_time) const {
    const LookedRow& looked = rows.rows[row];
    const std::uint64_t in_row = part.order[in_time];
    if (in_row < looked.length) return looked.begin + in_row;
    raise(rows.flag, Fallback::kDamaged);
    return looked.begin;
  }
};

/// Item i of the nodes inserts one into a table that is larger than the one before.
struct InsertAgain {
  IdTable table;
  const std::uint64_t* ids;
  const std::uint64_t* num_nodes;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (i < *num_nodes) table.insert(ids[i], i);
  }
};

/// Item k of a frontier's bound is a key to sort its rows by, so that they are read in the order in which
/// they lie.
struct KeyRows {
  const std::uint64_t* ids;
  const std::uint64_t *frontier_begin, *frontier_end;  // cells
  std::uint64_t mask;                                  // of the node in an id
  std::int64_t behind;                                 // the key of what is no row: above all nodes
  std::int64_t* keys;
  std::uint32_t* numbers;

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t k) const {
    const bool there = k < *frontier_end - *frontier_begin;
    keys[k] = there ? static_cast<std::int64_t>(ids[*frontier_begin + k] & mask) : behind;
    numbers[k] = static_cast<std::uint32_t>(k);
  }
};

/// Item i of `bound` copies a result to memory of the host, of which only the device knows how long it is.
template <class T>
struct CopyOut {
  const T* from;
  T* to;
  const std::uint64_t* count;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (i < *count) to[i] = from[i];
  }
};

/// Item i of `bound` copies an id in a tree out to memory of the host, as a node and a tree.
struct CopyOutTrees {
  const std::uint64_t* ids;
  std::int64_t *nodes, *trees;
  const std::uint64_t* count;
  int node_bits;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (i >= *count) return;
    nodes[i] = static_cast<std::int64_t>(ids[i] & ((std::uint64_t{1} << node_bits) - 1));
    trees[i] = static_cast<std::int64_t>(ids[i] >> node_bits);
  }
};

}  // namespace hopfeed::gpu
