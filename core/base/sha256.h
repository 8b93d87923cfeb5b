// SHA-256 of bytes, by OpenSSL, names content that a BatchSpec refers to and does not carry (given seeds, a
// plugin's file).
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace hopfeed {

/// Returns the SHA-256 of `bytes`, in 64 hex digits. Throws kNoSpace where OpenSSL has no memory.
std::string sha256(std::span<const std::byte> bytes);
/// Returns the SHA-256 of a whole file, in 64 hex digits. Throws kNotFound or kIo naming it.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace hopfeed
