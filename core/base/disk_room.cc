// See disk_room.h.
#include "core/base/disk_room.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/memory_limits.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

std::optional<std::uint64_t> free_bytes(const fs::path& folder) {
  struct statvfs disk;
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::string cannot_write(const fs::path& what, int errno_value, const std::string& needed,
                         const std::string& there) {
  return "cannot write " + what.string() + ": " + std::strerror(errno_value) + "; it needs " + needed + ", " +
         there;
}

}  // namespace

void require_disk_room(const fs::path& folder, std::uint64_t needed, const fs::path& target) {
  const std::optional<std::uint64_t> there = free_bytes(folder);
  if (!there || *there >= needed) return;
  throw Error(ErrorCode::kNoSpace,
              cannot_write(target, ENOSPC, "at least " + format_bytes(needed),
                           format_bytes(*there) + " are free; choose a folder on a larger disk"));
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::uintmax_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

void throw_write_errno(const fs::path& file, int errno_value, std::uint64_t needed) {
  const std::optional<std::uint64_t> there = free_bytes(file.parent_path());
  if ((errno_value == ENOSPC || errno_value == EDQUOT) && there)
    throw Error(ErrorCode::kNoSpace,
                cannot_write(file, errno_value, format_bytes(needed),
                             format_bytes(*there) + " are free; choose a folder on a larger disk"));
  rlimit limit{};
  if (errno_value == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    throw Error(ErrorCode::kIo, cannot_write(file, errno_value, format_bytes(needed),
                                             "files may have " + format_bytes(limit.rlim_cur) +
                                                 "; raise the limit on the size of files (ulimit -f)"));
  throw_errno("cannot write " + file.string(), errno_value);
}

}  // namespace hopfeed
