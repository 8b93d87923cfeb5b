// An AtomicFile appears whole or not at all. Until `commit` its bytes lie in a file without a name
// (O_TMPFILE) in the target's folder, so that whatever kills the process leaves nothing; commit syncs them,
// gives them a name beside the target, renames that over it, and syncs the folder. Where the file system has
// no files without a name, the one beside the target is there from the start, and the next writer of the same
// target sweeps what a killed one left (temporary_owner.h).
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/owned_fd.h"

namespace hopfeed {

/// Sync says whether what is written is to outlast a power failure.
enum class Sync { kYes, kNo };

class AtomicFile {
 public:
  /// Each error begins with `prefix` ("--json: ") and names `path`. Throws kInvalid where `path` is there and
  /// no regular file, or stands for a descriptor, kNotFound without its folder, kIo where that cannot be
  /// written.
  explicit AtomicFile(std::filesystem::path path, std::string prefix = "", Sync sync = Sync::kYes);
  /// What was not committed is gone; an older file of that name stays as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes. Throws kNoSpace or kIo.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Puts the file in its place, where it is also after a power failure (Sync::kYes). Call it once; nothing
  /// is written after it.
  void commit();

  /// Returns the descriptor that holds the bytes.
  int fd() const { return fd_.get(); }

 private:
  [[noreturn]] void fail(int errno_value) const;
  const std::filesystem::path path_, beside_;
  const std::string prefix_;
  const Sync sync_;
  OwnedFd fd_;
  bool named_ = false;  // there is a file called `beside_`, and it is ours
};

/// Returns the descriptor of this process that a link stands for, as /dev/stdout does: a file must not take
/// that link's place.
std::optional<int> descriptor_behind(const std::filesystem::path& link);

/// Makes the names in a folder last over a power failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace hopfeed
