// Writes a dataset of any size that takes no place on disk: files of holes behind right headers. It can be
// opened, not sampled.
#pragma once
#include <cstdint>
#include <filesystem>

namespace hopfeed::bench {

/// Writes it to `folder`, which must not exist: `num_nodes` nodes with `num_features` float32, `num_edges`
/// edges.
void write_sparse_dataset(const std::filesystem::path& folder, std::int64_t num_nodes,
                          std::int64_t num_features, std::int64_t num_edges);

}  // namespace hopfeed::bench
