// These are a batch as tensors over the slot's own memory, under PyG's names. Nothing is copied; each tensor
// keeps the batch, and so its slot, until the last of them is gone. Rows that are stored in fewer bits than
// layers compute with are copied: int8 and int4 with a scale become float32, and so does x of half floats.
//
// On a device the block goes there in one piece, and the tensors are views of the copy.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/batch/batch_view.h"
#include "core/dataset/dataset_meta.h"
#include "stream/loader_options.h"
#include "trainer/compressed_rows.h"
#include "trainer/copy_stream.h"

namespace hopfeed {

// docs/batch.md has the fields of a batch with n nodes, E edges (of a type), B seed positions and h hops.
// They are read-only: the memory is shared with the slot, so no operation changes them in place.

/// NodeTensors are nodes of one type.
struct NodeTensors {
  torch::Tensor x;     // [n, ...] as stored, or float32; undefined where the batch carries none
  torch::Tensor y;     // [n] int64, -1 for a node without a label; undefined where the batch carries none
  torch::Tensor n_id;  // int64 [n]
  torch::Tensor dataset_id;                     // int64 [n]; undefined unless asked for
  std::vector<std::int64_t> num_sampled_nodes;  // [h + 1]; empty in a bidirectional batch
  /// It has by name: further attributes [n, ...]; of disjoint batches `batch` [n], of the seeds' type
  /// `seed_time` [B].
  std::map<std::string, torch::Tensor> node_arrays;

  std::int64_t num_nodes() const { return n_id.size(0); }
  /// Returns whether all edges between the nodes are there and no hops are told: an induced subgraph (or
  /// seeds alone).
  bool is_whole() const { return num_sampled_nodes.size() == 1; }
  /// Returns the rows that a layer has to compute: nodes whose neighbours were asked for, in the first `hops`
  /// hops; of an induced subgraph all.
  std::int64_t num_expanded(std::int64_t hops) const;
};

/// EdgeTensors are edges of one type.
struct EdgeTensors {
  torch::Tensor edge_index;                          // int64 [2, E]
  torch::Tensor e_id;                                // int64 [E]; undefined unless asked for
  std::vector<std::int64_t> num_sampled_edges;       // [h]
  std::map<std::string, torch::Tensor> edge_arrays;  // attributes [E, ...] by name
  /// It says for copies where the edges of each row end, in the host's memory; else it is undefined, and
  /// rows() reads it from edge_index.
  torch::Tensor rowptr;

  std::int64_t num_hops() const { return static_cast<std::int64_t>(num_sampled_edges.size()); }
};

/// SeedTensors say where the seeds of a batch are, among the nodes of their type. Of links LinkTensors says
/// it.
struct SeedTensors {
  torch::Tensor input_id;    // int64 [B]; of links [P]
  torch::Tensor seed_index;  // int64 [B]: local id of each seed position; undefined where no seed repeats
  std::int64_t batch_size =
      0;  // distinct seeds: the first nodes of their type; 0 of links, as PyG tells none

  /// Returns the rows of the seeds, one per position: `values` [>= batch_size, ...] -> [B, ...].
  torch::Tensor at_seeds(const torch::Tensor& values) const;
};

/// LinkTensors are the links of a batch whose seeds are links: local ids of their ends, among the nodes of
/// the ends' types. What the kind of negatives does not bring is undefined.
struct LinkTensors {
  int edge_type = -1;                     // of the links; -1: the seeds are nodes
  torch::Tensor edge_label_index;         // int64 [2, P + N]: source and destination, the positives first
  torch::Tensor edge_label;               // [P + N] float32; int64 where labels are given
  torch::Tensor edge_label_time;          // int64 [P + N]
  torch::Tensor src_index;                // int64 [P]; this and the next in batches of triplets
  torch::Tensor dst_pos_index;            // int64 [P]
  torch::Tensor dst_neg_index;            // int64 [P], or [P, amount] of several negatives each
  torch::Tensor seed_time;                // int64 [P]
  std::int64_t num_negative_retries = 0;  // draws that strict negatives threw away

  bool any() const { return edge_type >= 0; }
};

/// BatchTensors are a homogeneous batch.
struct BatchTensors : NodeTensors, EdgeTensors, SeedTensors {
  LinkTensors links;
  /// Returns the edges as rows of the expanded nodes, of an induced subgraph as rows of all. Throws kInvalid
  /// for a bidirectional batch, kCorrupt where edge_index does not fit.
  CompressedRows rows() const;
};

/// TypedBatchTensors are a batch of any types, in the order of the dataset's; those that it does not reach
/// are there and empty.
struct TypedBatchTensors : SeedTensors {
  std::vector<NodeTensors> nodes;
  std::vector<EdgeTensors> edges;
  int seed_type = 0;  // the seeds' node type; of links the type of their sources
  LinkTensors links;
  const DatasetMeta* meta = nullptr;  // names of the types; must outlive the tensors

  /// Finds a type by name: "paper"; "paper__cites__paper", or "cites" where only one type has it. Throws
  /// kNotFound.
  const NodeTensors& node(const std::string& type) const { return nodes[meta->node_type(type)]; }
  const EdgeTensors& edge(const std::string& type) const { return edges[meta->edge_type(type)]; }
  std::int64_t num_hops() const;
  /// Returns the edges of a type as rows of the expanded nodes of its destination type. Throws what
  /// BatchTensors::rows throws.
  CompressedRows rows(int edge_type) const;
};

/// Returns the tensors of a batch of a dataset with one node and one edge type; of others the seeds and the
/// nodes of their type, without edges. Throws kInvalid for links of a dataset of several types.
BatchTensors to_tensors(const Batch& batch);
TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta);

/// Returns the tensors on a device: copies, there when this returns; on the CPU the views. Of a batch that
/// lies on the device (Batch::device_form) they are views of its memory, which is used again once what the
/// current stream was asked for by the end of the last of them is done.
BatchTensors to_tensors(const Batch& batch, torch::Device device);
TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta, torch::Device device);

/// Returns, within copies->run(), copies that are under way, and the batch is kept until copies->release().
/// Null: the views. batch_prefetcher.h makes an epoch of it.
BatchTensors to_tensors(const Batch& batch, CopyStream* copies);
TypedBatchTensors to_typed_tensors(const Batch& batch, const DatasetMeta& meta, CopyStream* copies);

/// A model reads this: a batch of one node and edge type, or of several.
using AnyBatchTensors = std::variant<BatchTensors, TypedBatchTensors>;

/// Returns the tensors of a block that lies elsewhere: `owner` keeps the memory behind `view`.
BatchTensors to_tensors(const BatchView& view, std::shared_ptr<const void> owner,
                        CopyStream* copies = nullptr);
TypedBatchTensors to_typed_tensors(const BatchView& view, const DatasetMeta& meta,
                                   std::shared_ptr<const void> owner, CopyStream* copies = nullptr);
/// Returns Torch's type. Throws kUnsupported for types with a scale, whose rows no tensor can lie over.
torch::Dtype dtype_of(ElementType type);

}  // namespace hopfeed
