// A serial sampler of every kind that is obviously right, written on original ids and edge lists alone: what the pipeline, the
// partitions and the relabelling must come to, field by field.
#pragma once
#include <cstdint>
#include <vector>

#include "core/batch_layout.h"
#include "core/batch_options.h"
#include "core/batch_view.h"
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

/// Samples `seeds` (original ids of `seed_type`).
TypedBatch serial_sample(const TypedGraph& graph, int seed_type, const std::vector<std::int64_t>& seeds,
                         const BatchOptions& options, const BatchKey& key);

/// What edge type has the reverses of type `e`: that of the reversed relation ("rev_to" of "to"), or itself between nodes of one
/// type; -1 where neither is.
int reverse_type(const TypedGraph& graph, std::size_t e);

/// Every field of `batch` against what it should be (EXPECTs).
void expect_same(const BatchView& batch, const TypedBatch& expected, const TypedGraph& graph, int seed_type,
                 const BatchOptions& options);

}  // namespace hopfeed::testing
