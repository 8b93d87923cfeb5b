// A DatasetWriter writes a dataset folder so that it appears whole or not at all: everything goes into a
// hidden folder beside the final one, is fsynced (Sync::kYes), the manifest comes last, and one rename makes
// it visible. What a killed writer left is swept by the next.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dataset/array_folder.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// Whatever else is written inside a dataset's folder would be part of it by accident: removed with it, never
/// verified, or in the place of one of its files. Throws kInvalid, `prefix` ("--json: ") before it, where a
/// folder that `target` will lie in holds a dataset's meta.json; symbolic links are followed.
void refuse_inside_dataset(const std::filesystem::path& target, const std::string& prefix = "");

struct DatasetWriterOptions {
  bool overwrite = false;  // replace a dataset of the same name, at the moment of the rename; no other thing
  Sync sync = Sync::kYes;  // kNo: for a folder that ends with the process
};

/// MadeFolders are folders that were made on the way to something that may not come: unless kept they are
/// removed again, as far as they are empty.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  /// Makes `folder` and those that it needs. Throws what throw_errno does.
  void make(const std::filesystem::path& folder);
  void keep() { made_.clear(); }

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

class DatasetWriter : public ArrayFolder {
 public:
  /// A link to a folder stays, and the dataset appears where it leads. Throws kInvalid where `folder` exists
  /// (unless overwrite is set and it is a hopfeed dataset or empty), is a link that leads nowhere, is where a
  /// disk is mounted or has a name that is not UTF-8, kIo where its parent cannot be written.
  /// Sweeps temporary folders of dead writers of the same target.
  explicit DatasetWriter(const std::filesystem::path& folder, DatasetWriterOptions options = {});
  /// Removes the temporary folder unless committed, and the parents that were made for it.
  ~DatasetWriter();
  /// Throws kNoSpace where the disk has fewer free bytes.
  void require_room(std::uint64_t bytes) const;
  /// Validates `meta` (files are filled in here), writes meta.json, syncs and renames. Afterwards the dataset
  /// is there. Throws kInvalid where something has appeared at its place meanwhile, which is left as it is.
  void commit(DatasetMeta meta);

 private:
  void rename_to_target();
  int rename_as(unsigned flags) const;
  void put_back(std::uint64_t own);

  MadeFolders parents_;  // first: they go after what lies in them
  std::filesystem::path target_;
  DatasetWriterOptions options_;
  bool committed_ = false;
};

}  // namespace hopfeed
