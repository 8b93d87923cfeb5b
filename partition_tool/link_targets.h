// Says which edge types of a dataset are split, with which reverse and by which time: split_links.h checks it
// before it reads any edge.
#pragma once
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/link_split_options.h"

namespace hopfeed {

/// A LinkTarget is an edge type to split, and its reverse or -1.
struct LinkTarget {
  int type = -1, reverse = -1;
};

/// Returns the edge types to split. Throws kInvalid as split_links() does.
std::vector<LinkTarget> link_targets(const DatasetMeta& meta, const LinkSplitOptions& options);

/// Returns the attribute that tells the time of edges; empty where there is none. Throws kInvalid where the
/// split needs one.
std::string link_time(const EdgeTypeMeta& edge, const LinkSplitOptions& options);

}  // namespace hopfeed
