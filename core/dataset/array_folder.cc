// See array_folder.h.
#include "core/dataset/array_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"

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
  if (error) {  // another file system, or one without links
    require_disk_room(folder_, file.bytes, path);
    error.clear();
    fs::copy_file(from, path, error);
    if (error) throw_errno("cannot take " + from.string() + " to " + path.string(), error.value());
    const OwnedFd copy(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (sync_ == Sync::kYes && (copy.get() < 0 || ::fsync(copy.get()) != 0))
      throw_errno("cannot sync " + path.string(), errno);
  }
  const std::lock_guard lock(mutex_);
  files_[relative] = file;
}

}  // namespace hopfeed
