// Entries of a split with sharded ids, of which each partition has a range: positions, where those of its
// range begin and end is in id_ranges.h. Who asks the others for theirs is PeerIds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

/// SplitMeta is what the manifest says of a split.
struct SplitMeta {
  Store store = Store::kNode;  // of nodes, or of links (Store::kEdge)
  int type = 0;                // node type or edge type
  std::string name;
  bool has_labels = false, has_times = false;
  std::uint32_t number = 0;  // among those of its type
  std::int64_t count = 0;
  int src_type = 0, dst_type = 0;   // node types; of nodes the first
  std::int64_t smallest_label = 0;  // of links with labels

  bool is_edge() const { return store == Store::kEdge; }
};
/// Only with sharded ids. Throws kNotFound as Dataset::split and edge_split do.
SplitMeta find_split(const Dataset& dataset, Store store, int type, const std::string& name);

/// SplitEntries are entries of a split: of links `originals` and `ids` are those of the sources.
struct SplitEntries {
  void resize(const SplitMeta& of, std::size_t count);

  std::vector<std::int64_t> originals, ids;                          // [n]
  std::vector<std::int64_t> destination_originals, destination_ids;  // [n] of links
  std::vector<std::int64_t> labels, times;  // [n] of links; empty: the split has none
};

/// Reads the entries at `places` of a partition's range, which are in it, into entries at[i] of `out`. The
/// partition must be here. Throws kCorrupt naming file and entry of what is no node, or a label below the
/// smallest.
void read_split_shard(const Dataset& dataset, const SplitMeta& split, int partition,
                      std::span<const std::int64_t> places, std::span<const std::size_t> at,
                      SplitEntries& out);

}  // namespace hopfeed
