// MappedFile is a file mapped read-only: one physical copy for all processes of a machine, on huge pages
// where the file system gives them (ext4 and XFS do, by madvise alone). The size is taken once, at open; what
// was got is read back, never assumed.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/base/huge_pages.h"
#include "core/base/mapped_ranges.h"

namespace hopfeed {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole of `path`. Throws kNotFound or kIo with the path, kUnsupported where HugePages::kAlways
  /// cannot be had. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path& path, HugePages huge_pages = HugePages::kAuto);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::size_t map(int fd, HugePages huge_pages);

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MappedRange* range_ = nullptr;
};

/// Returns the whole of a small file as text. Throws kNotFound, kIo, or kInvalid where it is larger than
/// `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace hopfeed
