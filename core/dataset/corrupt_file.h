// Throws the error for a file of a dataset that contradicts itself or the others.
#pragma once
#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace hopfeed {

/// Throws kCorrupt naming the file.
[[noreturn]] inline void corrupt_file(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, path.string() + ": " + what);
}

}  // namespace hopfeed
