// Says which file has an entry of what is one array to its readers, and with sharded ids lies in one file for
// each partition: for errors, which name both.
#pragma once
#include <cstdint>
#include <string>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

struct ArrayPlace {
  std::string file;  // relative to the dataset's folder
  std::int64_t entry = 0;
};

/// Returns where the dataset id of an original id is.
ArrayPlace place_of_new_id(const DatasetMeta& meta, const NodeTypeMeta& node, std::int64_t original_id);
ArrayPlace place_in_split(const DatasetMeta& meta, const NodeTypeMeta& node, const std::string& split,
                          std::int64_t entry);
ArrayPlace place_of_link(const DatasetMeta& meta, const EdgeTypeMeta& edge, const std::string& split,
                         std::int64_t link);

}  // namespace hopfeed
