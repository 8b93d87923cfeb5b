// Plans how the neighbour sampler takes each edge type of a dataset: what the options ask for, found in the
// dataset once.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"

namespace hopfeed {

/// An EdgeTypePlan is an edge type as the options want it sampled.
struct EdgeTypePlan {
  CscView csc;
  std::vector<std::int64_t> fanouts;  // [hops]
  std::optional<WeightView> weight;
  std::optional<AttrView> weights;  // what the alias tables were made of
  std::optional<TimeView> time;
  bool positions = false;  // an attribute of it is gathered
};

/// Returns the plan of each edge type. Throws kInvalid, kNotFound or kUnsupported for options that the
/// dataset cannot fulfil.
std::vector<EdgeTypePlan> plan_edge_types(const Dataset& data, const BatchOptions& options);

}  // namespace hopfeed
