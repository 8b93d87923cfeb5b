// An ArrayFolder is a folder that arrays are written into, and what became of them: the size and checksum
// of each file.
#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/npy.h"

namespace hopfeed {

class ArrayFolder {
 public:
  ArrayFolder(const ArrayFolder&) = delete;
  ArrayFolder& operator=(const ArrayFolder&) = delete;

  /// Opens one array for writing; folders are made on the way. Hand it back with `close`.
  NpyWriter open(const std::string& relative, const std::string& descr,
                 const std::vector<std::int64_t>& shape);
  /// Finishes the array and notes size and checksum. May be called from several threads for different arrays.
  void close(const std::string& relative, NpyWriter writer);
  template <class T>
  void write(const std::string& relative, std::span<const T> items, const std::vector<std::int64_t>& shape) {
    NpyWriter writer =
        open(relative, std::is_same_v<T, RowRecord> ? kRowRecordDescr : npy_descr(element_type_of<T>), shape);
    writer.write(items);
    close(relative, std::move(writer));
  }
  /// Takes a file in that lies elsewhere, by a hard link where the file system can: `file` says what it is.
  void adopt(const std::filesystem::path& from, const std::string& relative, const FileMeta& file);

  /// Returns where the arrays lie: for a writer that wants to read back what it wrote.
  const std::filesystem::path& temporary_folder() const { return folder_; }

 protected:
  ArrayFolder() = default;
  ~ArrayFolder() = default;
  /// Makes the folder. Throws what throw_errno does.
  void begin(std::filesystem::path folder, Sync sync);
  /// Returns what was closed so far.
  const std::map<std::string, FileMeta>& files() const { return files_; }
  Sync sync() const { return sync_; }

 private:
  std::filesystem::path folder_;
  Sync sync_ = Sync::kYes;
  std::mutex mutex_;  // guards files_
  std::map<std::string, FileMeta> files_;
};

}  // namespace hopfeed
