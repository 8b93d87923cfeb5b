// See mapped_file.h.
#include "core/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace hopfeed {

MappedFile::MappedFile(const std::filesystem::path& path, HugePages huge_pages) : path_(path) {
  // A named pipe would be waited for; it is refused below.
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw_errno("cannot open " + path.string(), errno);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) throw_errno("cannot read " + path.string(), errno);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kInvalid, path.string() + " is not a regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  std::size_t missing = map(file.get(), huge_pages);
  if (missing > 0) {
    // The page cache holds what a writer left, in small pages. Read anew it comes in 2 MiB pages.
    ::munmap(const_cast<std::byte*>(std::exchange(data_, nullptr)), size_);
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    missing = map(file.get(), huge_pages);
  }
  if (missing == 0) {
    range_ = note_mapped_range(data_, size_, path.string());
    return;
  }
  ::munmap(const_cast<std::byte*>(std::exchange(data_, nullptr)), size_);
  throw Error(ErrorCode::kUnsupported, path.string() + ": " + std::to_string(missing) + " of " +
                                           std::to_string(size_) +
                                           " bytes are not on 2 MiB pages: the file system has none, another "
                                           "process holds the file in small pages, "
                                           "or free memory is short; use huge pages auto");
}

// Returns the bytes that are not on the pages asked for.
std::size_t MappedFile::map(int fd, HugePages huge_pages) {
  // MAP_SHARED: one physical copy for all processes, and what the page cache holds on huge pages stays on
  // them.
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw_errno("cannot map " + path_.string(), errno);
  data_ = static_cast<const std::byte*>(data);
  return advise_pages({static_cast<std::byte*>(data), size_}, huge_pages);
}

MappedFile::~MappedFile() {
  if (range_) forget_mapped_range(range_);
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      range_(std::exchange(other.range_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(range_, other.range_);
  return *this;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes) {
    throw Error(ErrorCode::kInvalid, path.string() + " has " + std::to_string(file.bytes().size()) +
                                         " bytes; at most " + std::to_string(max_bytes) + " are read");
  }
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace hopfeed
