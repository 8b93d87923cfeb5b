// These kernels read drawn edges and give their sources local ids in order of first appearance.
//
// A hash table per node type has of each node of the batch its local id, or, while a step is under way, the
// least number of the edges that bring it: kPending | edge, by an atomic minimum, which leaves local ids
// alone since they are smaller. Then each edge that holds its node's number is a first appearance; a prefix
// sum over these gives the new local ids. Which slot a node comes to hangs on the order of the threads, its
// local id does not.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/row_kernels.h"

namespace hopfeed::gpu {

inline constexpr std::uint64_t kPending = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};

/// An IdTable maps ids (node, or tree and node) to local ids. It is at most half full, so that a search ends.
struct IdTable {
  /// A free slot is all ones, which no id and no value is.
  struct Slot {
    std::uint64_t id, value;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  Slot* slots = nullptr;
  int bits = 0;

  /// Returns the slot of an id, whose value is then no more than `value`.
  HOPFEED_HOST_DEVICE std::uint64_t insert(std::uint64_t id, std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    for (std::uint64_t at = id * 0x9E3779B97F4A7C15u >> (64 - bits);; at = (at + 1) & mask) {
      std::uint64_t found = atomic_read(&slots[at].id);
      if (found == kFree) found = atomic_swap_if(&slots[at].id, kFree, id);
      if (found != kFree && found != id) continue;
      atomic_min(&slots[at].value, value);
      return at;
    }
  }
};

/// An IdStep is ids that become local ids together: the seeds of one entry, or the sources of one edge type
/// in a hop.
struct IdStep {
  IdTable table;
  const std::uint64_t* count_at = nullptr;  // how many there are; null: `bound`
  std::uint64_t bound = 0;                  // no more are
  std::uint64_t* slots = nullptr;           // [bound]; kNoSlot: it was no node
  std::uint64_t* firsts = nullptr;     // [bound + 1] whether it is a first; behind the scan, firsts before it
  std::uint64_t* ids = nullptr;        // local id -> id
  std::uint64_t* num_nodes = nullptr;  // nodes that have a local id
  std::uint32_t* locals = nullptr;     // [all steps]
  std::uint64_t* num_before = nullptr;  // how many of them earlier steps gave; null: none

  HOPFEED_HOST_DEVICE std::uint64_t count() const { return count_at == nullptr ? bound : *count_at; }
  HOPFEED_HOST_DEVICE std::uint64_t before() const { return num_before == nullptr ? 0 : *num_before; }
};

/// Item i of the seeds inserts one.
struct InsertSeeds {
  IdStep step;
  const std::int64_t* seeds;
  std::uint64_t number;  // of the first in the batch
  int node_bits;         // of ids in trees; 0: there are none

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t tree = node_bits == 0 ? 0 : (number + i) << node_bits;
    step.slots[i] = step.table.insert(tree | static_cast<std::uint64_t>(seeds[i]), kPending | i);
  }
};

/// Item e of the edges reads the source of a drawn edge, and what else is asked of it.
struct ReadEdges {
  RowStep rows;
  IdStep step;
  bool trees;
  std::int64_t* edge_ids;   // null: not asked for
  std::int64_t* positions;  // null: not asked for
  std::uint32_t* targets;   // null: not asked for

  HOPFEED_HOST_DEVICE void operator()(std::uint64_t e) const {
    if (e >= rows.num_edges()) return;
    const std::uint64_t place = rows.places[e];
    std::uint64_t position = EdgePlace::position(place);
    const DevicePart& part = rows.edges.parts[EdgePlace::part(place)];
    const auto source = static_cast<std::uint64_t>(source_of(part, e, position));
    if (part.order != nullptr) position = position_of(part, e, position);
    if (edge_ids != nullptr)
      edge_ids[step.before() + e] = read_int(part.edge_ids, rows.edges.edge_id_bytes, position);
    if (positions != nullptr)
      positions[step.before() + e] = part.first_edge + static_cast<std::int64_t>(position);
    if (targets != nullptr)
      targets[step.before() + e] =
          static_cast<std::uint32_t>(rows.counters.expanded(rows.dst_type)) + rows.row_of[e];
    if (source >= rows.edges.num_src) {  // it must not become a node
      rows.counters.raise(Fallback::kDamaged);
      step.slots[e] = kNoSlot;
      return;
    }
    const std::uint64_t tree =
        trees ? std::uint64_t{rows.tree_of(rows.row_of[e])} << rows.node_bits : std::uint64_t{0};
    step.slots[e] = step.table.insert(tree | source, kPending | e);
  }

 private:
  /// Returns the position in the row's own order.
  HOPFEED_HOST_DEVICE std::uint64_t position_of(const DevicePart& part, std::uint64_t e,
                                                std::uint64_t in_time) const {
    const LookedRow& row = rows.rows[rows.row_of[e]];
    const std::uint64_t in_row = part.order[in_time];
    if (in_row < row.length) return row.begin + in_row;
    rows.counters.raise(Fallback::kDamaged);
    return row.begin;
  }
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

/// Item i of bound + 1 flags a first appearance.
struct FlagFirsts {
  IdStep step;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const bool first = i < step.count() && step.slots[i] != kNoSlot &&
                       step.table.slots[step.slots[i]].value == (kPending | i);
    step.firsts[i] = first;
  }
};

/// Item i of bound gives a first appearance the next local id.
struct AssignFirsts {
  IdStep step;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (step.firsts[i] == step.firsts[i + 1]) return;
    const std::uint64_t local = *step.num_nodes + step.firsts[i];
    IdTable::Slot& slot = step.table.slots[step.slots[i]];
    step.ids[local] = slot.id;  // before the slot is written: a read behind a write waits for it
    slot.value = local;
  }
};

/// Item i of bound writes a local id: all of them are known now.
struct WriteLocals {
  IdStep step;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (i >= step.count()) return;
    const std::uint64_t slot = step.slots[i];
    step.locals[step.before() + i] =
        slot == kNoSlot ? 0 : static_cast<std::uint32_t>(step.table.slots[slot].value);
  }
};

/// One item closes a step.
struct CloseStep {
  IdStep step;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t /*i*/) const {
    *step.num_nodes += step.firsts[step.bound];
    if (step.num_before != nullptr) *step.num_before += step.count();
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

/// One item counts how many edges a hop of an edge type has, where the scan has told it.
struct CountEdges {
  RowStep rows;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t /*i*/) const {
    rows.counters.edges_of_hop(rows.edge_type, rows.hop) = rows.num_edges();
  }
};

/// Item t of the node types closes a hop, behind the seeds and behind each hop: what is new is the next
/// frontier.
struct CloseHop {
  Counters counters;
  int hop;  // 0: the seeds
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t t) const {
    const int type = static_cast<int>(t);
    const std::uint64_t nodes = counters.nodes(type), end = counters.frontier_end(type);
    counters.nodes_of_hop(type, hop) = nodes - end;
    counters.expanded(type) = end;
    counters.frontier_end(type) = nodes;
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
