// RowFile is a file whose rows are read past the page cache (O_DIRECT) where the file system allows that,
// else through it, without reading ahead.
#pragma once
#include <cstdint>
#include <filesystem>

#include "core/base/owned_fd.h"

namespace hopfeed {

/// Rows below this size stay mapped: a page holds so many of them that the whole attribute is small.
inline constexpr std::int64_t kLeastFileRowBytes = 64;

class RowFile {
 public:
  enum class Access { kDirect, kBuffered };
  /// Opens the .npy file of an attribute, which is checked as Dataset checks it. `wanted` kBuffered: never
  /// past the page cache. Throws kNotFound, kIo or kCorrupt naming the file.
  explicit RowFile(std::filesystem::path path, Access wanted = Access::kDirect);

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  Access access() const { return access_; }
  std::uint64_t data_offset() const { return data_offset_; }  // where row 0 begins, in bytes
  std::uint64_t bytes() const { return bytes_; }              // of the whole file, when it was opened

 private:
  std::filesystem::path path_;
  OwnedFd fd_;
  Access access_ = Access::kBuffered;
  std::uint64_t data_offset_ = 0, bytes_ = 0;
};

}  // namespace hopfeed
