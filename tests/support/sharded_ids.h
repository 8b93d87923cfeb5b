// Makes the ids of a test's dataset sharded, by the plainest means: what the cut writes is compared with it,
// and machines sample from it.
#pragma once
#include <filesystem>

namespace hopfeed::testing {

/// Rewrites a dataset of one or more partitions in place. It must be whole, with ids for all nodes.
void shard_ids(const std::filesystem::path& folder);

}  // namespace hopfeed::testing
