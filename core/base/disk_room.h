// Compares what is to be written with what is there and what a disk has free, and says in errors of writing:
// the file or folder, what it needs, what is free.
#pragma once
#include <cstdint>
#include <filesystem>

namespace hopfeed {

/// Throws kNoSpace where the disk of `folder` has fewer free bytes than `target` needs. A file system that
/// does not tell is taken to have enough.
void require_disk_room(const std::filesystem::path& folder, std::uint64_t needed,
                       const std::filesystem::path& target);

/// Returns the bytes of all files below a folder.
std::uint64_t bytes_in(const std::filesystem::path& folder);

/// Throws as throw_errno("cannot write ...") does; where the disk was full, it adds the bytes that `file`
/// needs and those that there are.
[[noreturn]] void throw_write_errno(const std::filesystem::path& file, int errno_value, std::uint64_t needed);

}  // namespace hopfeed
