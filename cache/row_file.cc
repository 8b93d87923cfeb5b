// See row_file.h.
#include "cache/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "cache/file_reader.h"
#include "core/base/error.h"
#include "core/base/huge_pages.h"
#include "core/dataset/npy.h"

namespace hopfeed {
namespace {

/// Some file systems let a file be opened so, and refuse to read it.
bool reads_directly(int fd) {
  alignas(kReadAlign) static thread_local std::byte page[kReadAlign];
  return pread(fd, page, kReadAlign, 0) > 0;
}

}  // namespace

RowFile::RowFile(std::filesystem::path path, Access wanted) : path_(std::move(path)) {
  const NpyArray array(path_, HugePages::kNever);
  data_offset_ = array.header().data_offset;
  bytes_ = data_offset_ + array.bytes().size();
  if (wanted == Access::kDirect) {
    fd_ = OwnedFd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    if (fd_ && reads_directly(fd_.get())) {
      access_ = Access::kDirect;
      return;
    }
  }
  fd_ = OwnedFd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_) throw_errno("cannot open " + path_.string(), errno);
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM);
}

}  // namespace hopfeed
