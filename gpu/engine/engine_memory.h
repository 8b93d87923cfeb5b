// An engine (hop_engine_on.h) keeps this between batches, of each type and for all of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/engine/hop_engine.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/local_id_kernels.h"
#include "gpu/kernels/row_kernels.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::gpu {

/// These are the nodes of one type.
template <class Backend>
struct EngineNodesMemory {
  template <class T>
  using Array = DeviceArray<Backend, T>;
  template <class T>
  using Pinned = DeviceArray<Backend, T, Where::kPinned>;

  explicit EngineNodesMemory(Backend& b)
      : ids(b), original_ids(b), table(b), order(b), host_ids(b), host_trees(b), host_original_ids(b) {}
  Array<std::uint64_t> ids;  // local id -> id
  Array<std::int64_t> original_ids;
  Array<std::uint64_t> table;  // IdTable's
  int table_bits = 0;
  Array<std::uint32_t> order;                        // of the frontier's rows
  bool in_order = false;                             // this hop's rows are read in it
  int now = 0;                                       // cell of how many there are (BatchCells)
  int frontier_begin = 0, frontier_end = 0;          // cells
  std::uint64_t bound = 0, expanded_bound = 0;       // of the nodes so far, of those expanded
  std::uint64_t frontier_bound = 0, next_bound = 0;  // of this hop's frontier, of the next one's
  Pinned<std::int64_t> host_ids, host_trees, host_original_ids;
  std::size_t device_bytes() const {
    return ids.bytes() + original_ids.bytes() + table.bytes() + order.bytes();
  }
  std::size_t pinned_bytes() const {
    return host_ids.bytes() + host_trees.bytes() + host_original_ids.bytes();
  }
};

/// These are the edges of one type.
template <class Backend>
struct EngineEdgesMemory {
  template <class T>
  using Array = DeviceArray<Backend, T>;
  template <class T>
  using Pinned = DeviceArray<Backend, T, Where::kPinned>;

  explicit EngineEdgesMemory(Backend& b)
      : parts(b),
        partition_offsets(b),
        rows(b),
        offsets(b),
        sources(b),
        per_dst(b),
        targets(b),
        edge_ids(b),
        positions(b),
        excluded_destinations(b),
        excluded_sources(b),
        excluded_first(b),
        ends(b),
        begins(b),
        host_sources(b),
        host_per_dst(b),
        host_edge_ids(b),
        host_positions(b) {}
  Array<DevicePart> parts;
  std::vector<DevicePart> host_parts;
  Array<std::int64_t> partition_offsets;
  DeviceEdges view;
  Array<LookedRow> rows;
  Array<std::uint64_t> offsets;
  Array<std::uint32_t> sources, per_dst;
  Array<std::uint32_t> targets;  // where results stay on the device
  Array<std::int64_t> edge_ids, positions;
  Array<std::int64_t> excluded_destinations, excluded_sources;
  Array<std::uint64_t> excluded_first;
  DeviceExcluded excluded;
  Array<TimePlace> ends, begins;
  DeviceTimes times;
  RowStep step;             // of the hop under way
  bool in_place = false;    // its draws are DrawInPlace's
  int now = 0;              // cell of how many edges there are (BatchCells)
  std::uint64_t bound = 0;  // of the edges of hops before
  std::uint64_t hop_bound = 0;
  Pinned<std::uint32_t> host_sources, host_per_dst;
  Pinned<std::int64_t> host_edge_ids, host_positions;

  /// Takes the excluded edges of the batch to come to the device.
  void take_excluded(const EngineExcluded& pairs) {
    excluded = {};
    if (pairs.count == 0) return;
    excluded.destinations = excluded_destinations.assign(pairs.destinations, pairs.count);
    excluded.first = excluded_first.assign(pairs.first, pairs.count + 1);
    excluded.sources = excluded_sources.assign(pairs.sources, pairs.first[pairs.count]);
    excluded.count = pairs.count;
  }
  void take_times(const EngineTimes& of_seeds, std::uint64_t num_seeds) {
    times = {};
    if (of_seeds.ends != nullptr) times.ends = ends.assign(of_seeds.ends, num_seeds);
    if (of_seeds.begins != nullptr) times.begins = begins.assign(of_seeds.begins, num_seeds);
  }

  std::size_t device_bytes() const {
    return rows.bytes() + offsets.bytes() + sources.bytes() + per_dst.bytes() + targets.bytes() +
           edge_ids.bytes() + positions.bytes() + excluded_destinations.bytes() + excluded_sources.bytes() +
           excluded_first.bytes() + ends.bytes() + begins.bytes();
  }
  std::size_t pinned_bytes() const {
    return host_sources.bytes() + host_per_dst.bytes() + host_edge_ids.bytes() + host_positions.bytes();
  }
};

/// All types share this.
template <class Backend>
struct EngineSharedMemory {
  template <class T>
  using Array = DeviceArray<Backend, T>;
  template <class T>
  using Pinned = DeviceArray<Backend, T, Where::kPinned>;

  explicit EngineSharedMemory(Backend& b)
      : counts(b),
        places(b),
        source_places(b),
        slots(b),
        sums(b),
        weights_left(b),
        row_of(b),
        draws(b),
        numbers(b),
        keys(b),
        sorted_keys(b),
        streams(b),
        host_counts(b),
        host_hop_edges(b),
        host_seed_index(b),
        host_seeds(b),
        host_streams(b) {}
  Array<std::uint64_t> counts, places, source_places, slots, sums, weights_left;
  Array<std::uint32_t> row_of, draws, numbers;
  Array<std::int64_t> keys, sorted_keys;
  Array<NodeStream> streams;  // [hops * edge types] of the batch's key
  Pinned<std::uint64_t> host_counts;
  Pinned<std::uint64_t> host_hop_edges;  // of each edge type, where a hop counts
  Pinned<std::uint32_t> host_seed_index;
  Pinned<std::int64_t> host_seeds;  // as the request has them, at a place that stays
  Pinned<NodeStream> host_streams;
  std::size_t device_bytes() const {
    return counts.bytes() + places.bytes() + source_places.bytes() + slots.bytes() + sums.bytes() +
           weights_left.bytes() + row_of.bytes() + draws.bytes() + numbers.bytes() + keys.bytes() +
           sorted_keys.bytes() + streams.bytes();
  }
  std::size_t pinned_bytes() const {
    return host_counts.bytes() + host_hop_edges.bytes() + host_seed_index.bytes() + host_seeds.bytes() +
           host_streams.bytes();
  }
};

}  // namespace hopfeed::gpu
