// DGL's view of a batch: a block (message flow graph) per layer, from the input features to the seeds, over
// the arrays of the batch itself. A block's source nodes begin with its destination nodes, as in DGL's MFGs
// (dgl.to_block, GraphBolt's SampledSubgraph).
//
// Hop by hop order makes each block a prefix: with n_k the nodes of hops 0..k and E_k the edges of hops 1..k,
// the block that computes hop k's nodes has destinations [0, n_k), sources [0, n_{k+1}) and edges [0,
// E_{k+1}). One sample serves all layers: a node keeps its neighbours from block to block, where DGL draws
// anew in each layer.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/batch_view.h"

namespace hopfeed {

struct DglBlock {
  /// Of one node type.
  struct Nodes {
    std::int64_t num_src = 0, num_dst = 0;
    std::span<const std::int64_t>
        src_ids;  // [num_src]: srcdata[dgl.NID]; the first num_dst are dstdata[dgl.NID]
  };
  /// Of one edge type.
  struct Edges {
    std::span<const std::int64_t> src;  // [E] local ids among the sources of its source type
    std::span<const std::int64_t>
        dst;  // [E] local ids among the destinations of its destination type, non-decreasing in a hop
    std::span<const std::int64_t> e_id;  // [E] edata[dgl.EID]; empty in a batch without edge ids
  };
  std::vector<Nodes> nodes;  // per node type
  std::vector<Edges> edges;  // per edge type
};

/// One block per hop, the one next to the input first; views that hold as long as the batch. Throws kInvalid
/// for a batch that is not told hop by hop (subgraph = induced, or bidirectional without keep_orig_edges),
/// kCorrupt where its counts do not fit its arrays.
std::vector<DglBlock> dgl_blocks(const BatchView& batch);

}  // namespace hopfeed
