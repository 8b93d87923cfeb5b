// A ShardFolder is a part of a dataset that one task makes: some of its arrays, at the paths that they will
// have in the dataset, and shard.json, which says what the whole needs to know of them. It appears whole or
// not at all: what is written again by another try of the task is written beside, and the first to rename
// wins.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/dataset/array_folder.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/fingerprint.h"

namespace hopfeed {

/// A Shard is what shard.json says.
struct Shard {
  std::map<std::string, FileMeta> files;  // relative path -> size and checksum
  Fingerprint::Sums fingerprint;          // what its arrays add to the dataset's
  std::int64_t edges_cut = 0;
  std::map<std::string, std::int64_t> nonfinite;  // attribute -> NaN and infinite values in it
  std::string key_digest;                         // of keys alone (KeysMeta)
  std::string draft;                              // of which dataset it is a part (draft_name())
};

class ShardFolder : public ArrayFolder {
 public:
  /// `folder` is where it will lie. Sweeps what dead writers of it have left. Throws what throw_errno does.
  ShardFolder(const std::filesystem::path& folder, const DatasetMeta& draft);
  /// Removes what was not committed.
  ~ShardFolder();

  /// Whether somebody has committed this shard: there is nothing to do.
  static bool is_there(const std::filesystem::path& folder);
  /// Writes shard.json, syncs and renames. Its files and draft are filled in here. Where another try was
  /// faster, its shard stays.
  void commit(Shard shard);
  /// Reads shard.json. Throws kNotFound or kCorrupt naming the file.
  static Shard read(const std::filesystem::path& folder);

 private:
  std::filesystem::path target_;
  std::string draft_;
  bool committed_ = false;
};

}  // namespace hopfeed
