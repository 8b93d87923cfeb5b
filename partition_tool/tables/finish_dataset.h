// Makes a dataset of its shards: adds what they say, compares what they have, writes meta.json and renames.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

struct FinishOptions {
  std::filesystem::path folder;  // of the dataset
  std::vector<std::filesystem::path> shards;
  std::string made_by;  // the command line
  std::string tables;   // kept as tables.json beside meta.json: of what tables it was made; empty: nothing
  bool overwrite = false;
  int threads = 1;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // bytes compared
};

struct FinishResult {
  DatasetMeta meta;
  std::map<std::string, std::int64_t> nonfinite;  // as DatasetBuildResult has it
};

/// Shards stay as they are: their files are linked into the dataset where the file system can. Throws
/// kNotFound naming an array that no shard has, kInvalid naming one that two have, or a shard of another
/// draft, kCorrupt naming an array whose size or checksum is not what its shard says, and what DatasetWriter
/// throws.
FinishResult finish_dataset(DatasetMeta draft, const FinishOptions& options);

}  // namespace hopfeed
