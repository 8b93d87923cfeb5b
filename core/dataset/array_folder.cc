// See array_folder.h.
#include "core/dataset/array_folder.h"

#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace fs = std::filesystem;

void ArrayFolder::begin(fs::path folder, Sync sync) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) throw_errno("cannot create " + folder.string(), error.value());
  folder_ = std::move(folder);
  sync_ = sync;
}

NpyWriter ArrayFolder::open(const std::string& relative, const std::string& descr,
                            const std::vector<std::int64_t>& shape) {
  const fs::path path = folder_ / relative;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw_errno("cannot create " + path.parent_path().string(), error.value());
  return NpyWriter(path, descr, shape, sync_);
}

void ArrayFolder::close(const std::string& relative, NpyWriter writer) {
  const NpyWriter::Result result = writer.finish();
  const std::lock_guard lock(mutex_);
  files_[relative] = {.bytes = result.bytes, .xxh3 = result.xxh3};
}

void ArrayFolder::adopt(const fs::path& from, const std::string& relative, const FileMeta& file) {
  const fs::path path = folder_ / relative;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (!error) fs::create_hard_link(from, path, error);
  if (error) fs::copy_file(from, path, error);  // another file system, or one without links
  if (error) throw_errno("cannot take " + from.string() + " to " + path.string(), error.value());
  const std::lock_guard lock(mutex_);
  files_[relative] = file;
}

}  // namespace hopfeed
