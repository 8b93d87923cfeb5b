// A batch as tensors over the slot's own memory, under PyG's names. Nothing is copied; each tensor keeps the
// batch, and so its slot, until the last of them is gone.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/batch_view.h"
#include "trainer/compressed_rows.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// The fields of a homogeneous batch: n nodes, E edges, B seed positions, h hops (docs/batch.md). Read-only:
/// the memory is shared with the slot, so no in-place operation on them.
struct BatchTensors {
  torch::Tensor x;  // [n, ...] as stored; undefined where the batch carries none
  torch::Tensor y;  // [n] int64, -1 for a node without a label; undefined where the batch carries none
  torch::Tensor edge_index;     // int64 [2, E]
  torch::Tensor e_id;           // int64 [E]; undefined unless asked for
  torch::Tensor n_id;           // int64 [n]
  torch::Tensor input_id;       // int64 [B]
  torch::Tensor seed_index;     // int64 [B]: local id of each seed position; undefined where no seed repeats
  std::int64_t batch_size = 0;  // distinct seeds: the first nodes of the batch
  std::vector<std::int64_t> num_sampled_nodes;  // [h + 1]
  std::vector<std::int64_t> num_sampled_edges;  // [h]

  std::int64_t num_nodes() const { return n_id.size(0); }
  std::int64_t num_hops() const { return static_cast<std::int64_t>(num_sampled_edges.size()); }
  /// Nodes whose neighbours were asked for, in the first `hops` hops: the rows that a layer has to compute.
  std::int64_t num_expanded(std::int64_t hops) const;
  /// The edges as rows of the expanded nodes. Throws kCorrupt where edge_index does not fit.
  CompressedRows rows() const;
  /// Rows of the seeds, one per position: `values` [>= batch_size, ...] -> [B, ...].
  torch::Tensor at_seeds(const torch::Tensor& values) const;
};

BatchTensors to_tensors(const Batch& batch);
/// For blocks that lie elsewhere: `owner` keeps the memory behind `view`.
BatchTensors to_tensors(const BatchView& view, std::shared_ptr<const void> owner);
torch::Dtype dtype_of(ElementType type);

}  // namespace hopfeed
