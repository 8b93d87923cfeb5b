// See atomic_file.h. open(2) and linkat(2) describe how a file without a name gets one.
#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/temporary_owner.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

constexpr mode_t kMode = 0666;  // less the umask

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

/// -1 with EOPNOTSUPP, or with EISDIR from a kernel that does not know the flag, where the file system
/// cannot.
int open_unnamed(const fs::path& folder) {
  if (FAILPOINT("file.unnamed")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, std::string prefix, Sync sync)
    : path_(std::move(path)), beside_(temporary_beside(path_)), prefix_(std::move(prefix)), sync_(sync) {
  std::error_code ignored;
  if (descriptor_behind(path_) || (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored)))
    throw Error(ErrorCode::kInvalid, prefix_ + path_.string() + " is no regular file; name a file to write");
  if (!path_.has_filename()) fail(ENOENT);
  fd_ = OwnedFd(open_unnamed(folder_of(path_)));
  if (!fd_ && (errno == EOPNOTSUPP || errno == EISDIR)) {
    sweep_abandoned(path_);
    fd_ = OwnedFd(::open(beside_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    named_ = static_cast<bool>(fd_);
  }
  if (!fd_) fail(errno);
}

AtomicFile::~AtomicFile() {
  if (named_) ::unlink(beside_.c_str());
}

void AtomicFile::fail(int errno_value) const {
  throw_errno(prefix_ + "cannot write " + path_.string(), errno_value);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(fd_.get(), bytes); error != 0) fail(error);
}

void AtomicFile::commit() {
  if (sync_ == Sync::kYes && ::fsync(fd_.get()) != 0) fail(errno);
  if (!named_) {
    const std::string held = "/proc/self/fd/" + std::to_string(fd_.get());
    sweep_abandoned(path_);
    if (::linkat(AT_FDCWD, held.c_str(), AT_FDCWD, beside_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(errno);
    named_ = true;
  }
  if (std::rename(beside_.c_str(), path_.c_str()) != 0) fail(errno);
  named_ = false;
  if (sync_ == Sync::kYes) sync_folder(folder_of(path_));
}

std::optional<int> descriptor_behind(const fs::path& link) {
  constexpr std::string_view kDescriptors = "/proc/self/fd/";
  std::error_code ignored;
  const std::string target = fs::read_symlink(link, ignored).string();
  if (!target.starts_with(kDescriptors)) return std::nullopt;
  int number = -1;
  const auto [end, error] =
      std::from_chars(target.data() + kDescriptors.size(), target.data() + target.size(), number);
  if (error != std::errc{} || *end != '\0' || number < 0) return std::nullopt;
  return number;
}

void sync_folder(const fs::path& folder) {
  const OwnedFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) throw_errno("cannot sync " + folder.string(), errno);
}

}  // namespace hopfeed
