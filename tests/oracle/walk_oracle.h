// Walks at random, one walk at a time on edge lists alone, the way walk_sampler.h tells it.
#pragma once
#include <cstdint>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

/// Returns the edge type of each step.
std::vector<std::size_t> walk_types(const TypedGraph& graph, const WalkOptions& walk);

struct WalkStart {
  std::int64_t node = 0;     // original id
  std::uint32_t number = 0;  // of the walk in its batch
};
/// Returns the edge of each step; -1 behind a node without neighbours.
std::vector<std::int64_t> serial_walk(const TypedGraph& graph, const WalkStart& start,
                                      const WalkOptions& walk, const BatchKey& key,
                                      const AbsentEdges& absent = {});

}  // namespace hopfeed::testing
