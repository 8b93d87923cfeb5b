// A batch's own arrays have these names (PyG's, docs/batch.md): what makes batches takes them from here, and
// no imported attribute may be called as one of them. A plugin's sampler brings others, which are known only
// when a batch is made.
#pragma once
#include <algorithm>
#include <string_view>

namespace hopfeed {

namespace batch_field {
// These are fields of node types.
inline constexpr std::string_view kNId = "n_id", kDatasetId = "dataset_id",
                                  kNumSampledNodes = "num_sampled_nodes", kBatch = "batch",
                                  kInputId = "input_id", kBatchSize = "batch_size", kSeedIndex = "seed_index",
                                  kSeedTime = "seed_time";
// These are fields of edge types.
inline constexpr std::string_view kEdgeIndex = "edge_index", kNumSampledEdges = "num_sampled_edges",
                                  kEId = "e_id", kOrigEdgeIndex = "_orig_edge_index";
// These are fields of the seeds' edge type, where seeds are links; kInputId and kSeedTime are among them too.
inline constexpr std::string_view kEdgeLabelIndex = "edge_label_index", kEdgeLabel = "edge_label",
                                  kEdgeLabelTime = "edge_label_time", kSrcIndex = "src_index",
                                  kDstPosIndex = "dst_pos_index", kDstNegIndex = "dst_neg_index",
                                  kNumNegativeRetries = "num_negative_retries";
// These are fields of the batch as a whole.
inline constexpr std::string_view kWalks = "walks";
}  // namespace batch_field

inline constexpr std::string_view kBatchFields[] = {batch_field::kNId,
                                                    batch_field::kDatasetId,
                                                    batch_field::kNumSampledNodes,
                                                    batch_field::kBatch,
                                                    batch_field::kInputId,
                                                    batch_field::kBatchSize,
                                                    batch_field::kSeedIndex,
                                                    batch_field::kSeedTime,
                                                    batch_field::kEdgeIndex,
                                                    batch_field::kNumSampledEdges,
                                                    batch_field::kEId,
                                                    batch_field::kOrigEdgeIndex,
                                                    batch_field::kEdgeLabelIndex,
                                                    batch_field::kEdgeLabel,
                                                    batch_field::kEdgeLabelTime,
                                                    batch_field::kSrcIndex,
                                                    batch_field::kDstPosIndex,
                                                    batch_field::kDstNegIndex,
                                                    batch_field::kNumNegativeRetries,
                                                    batch_field::kWalks};

constexpr bool is_batch_field(std::string_view name) {
  return std::ranges::find(kBatchFields, name) != std::ranges::end(kBatchFields);
}

}  // namespace hopfeed
