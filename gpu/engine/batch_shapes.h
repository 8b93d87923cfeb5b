// BatchShapes tells which batches ask the same work of a device: those of as many seeds of each type, where
// nothing is excluded and no draw is temporal. What they differ in, seeds and keys, lies at places that stay.
// So the work of one can be recorded and done again for the others (CUDA graphs: one launch in place of
// many).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/engine/hop_engine.h"

namespace hopfeed::gpu {

/// CountMarks tell which cells (BatchCells) have a batch's counts.
struct CountMarks {
  std::vector<int> nodes;  // [(hops + 1) * node types]: of the nodes behind each hop, the seeds first
  std::vector<int> edges;  // [hops * edge types]: of the edges behind each hop
};

template <class Backend>
class BatchShapes {
 public:
  struct Shape {
    std::vector<std::pair<int, std::size_t>> seeds;
    std::uint64_t generation = ~std::uint64_t{0};  // of the memory behind a batch like it
    CountMarks marks = {};
    std::optional<typename Backend::Recording> recording = {};
  };

  /// Returns the shape of a request; null where batches like it are asked for anew each time. Good until the
  /// next call.
  Shape* of(const EngineRequest& request, const EnginePlan& plan) {
    if (request.excluded != nullptr) return nullptr;
    for (const EdgePlan& edges : plan.edge_types)
      if (edges.temporal) return nullptr;
    std::vector<std::pair<int, std::size_t>> seeds;
    for (std::size_t i = 0; i < request.num_entries; ++i)
      seeds.emplace_back(request.seeds[i].node_type, request.seeds[i].count);
    for (Shape& shape : shapes_)
      if (shape.seeds == seeds) return &shape;
    if (shapes_.size() == kMost) shapes_.erase(shapes_.begin());
    return &shapes_.emplace_back(Shape{std::move(seeds)});
  }

 private:
  static constexpr std::size_t kMost = 8;  // an epoch has two: its last batch is shorter
  std::vector<Shape> shapes_;
};

}  // namespace hopfeed::gpu
