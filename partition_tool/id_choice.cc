// See id_choice.h.
#include "partition_tool/id_choice.h"

#include <algorithm>

#include "core/base/error.h"

namespace hopfeed {

bool shards_ids(const std::string& ids, std::int64_t parts, const DatasetMeta& input) {
  if (ids == "sharded" && parts == 1)
    throw Error(ErrorCode::kInvalid,
                "--ids sharded deals ids out to partitions, and --parts 1 makes one; leave one of them out");
  if (ids != "auto") return ids == "sharded";
  return parts > 1 && std::ranges::any_of(input.node_types, [](const NodeTypeMeta& node) {
           return node.count >= kShardedIdsNodes;
         });
}

}  // namespace hopfeed
