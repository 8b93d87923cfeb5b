// This is a serial sampler of every kind that is obviously right, written on original ids and edge lists
// alone: what the pipeline, the partitions and the relabelling must come to, field by field. It takes random
// numbers and the integers of alias tables from core/draws and core/dataset, as the samplers do; what
// restates these too, and shares no code with either, is bench/core/serial_sampler.h.
#pragma once
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/batch/batch_view.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

struct TypedBatch {
  using Ints = std::vector<std::int64_t>;
  std::vector<Ints> n_id, batch, nodes_per_hop;             // per node type
  std::vector<Ints> sources, targets, e_id, edges_per_hop;  // per edge type
  std::vector<Ints> drawn_sources, drawn_targets;  // of bidirectional batches: what _orig_edge_index has
  Ints walks;                                      // of sampler "walk"
  Ints seed_index, seed_time;
};

/// SerialSeeds are seeds of one node type by original id, with their times where the options name a time.
struct SerialSeeds {
  int node_type = 0;
  std::vector<std::int64_t> ids, times;
};
/// AbsentEdges count as absent wherever neighbours are drawn: {edge type, source, destination}.
using AbsentEdges = std::set<std::array<std::int64_t, 3>>;

/// Samples all entries of seeds; trees are numbered on from entry to entry.
TypedBatch serial_sample(const TypedGraph& graph, const std::vector<SerialSeeds>& seeds,
                         const BatchOptions& options, const BatchKey& key, const AbsentEdges& absent = {});

/// Samples `seeds` (original ids of `seed_type`), whose times are their attribute.
TypedBatch serial_sample(const TypedGraph& graph, int seed_type, const std::vector<std::int64_t>& seeds,
                         const BatchOptions& options, const BatchKey& key);

/// Returns what edge type has the reverses of type `e`: that of the reversed relation ("rev_to" of "to"), or
/// itself between nodes of one type; -1 where neither is.
int reverse_type(const TypedGraph& graph, std::size_t e);

/// Expects every field of `batch` to be what it should be (EXPECTs).
void expect_same(const BatchView& batch, const TypedBatch& expected, const TypedGraph& graph, int seed_type,
                 const BatchOptions& options);
/// Expects all fields of a sample but those that belong to the seeds.
void expect_same_sample(const BatchView& batch, const TypedBatch& expected, const TypedGraph& graph,
                        const BatchOptions& options);

}  // namespace hopfeed::testing
