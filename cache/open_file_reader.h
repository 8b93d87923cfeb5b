// Chooses how files are read: by io_uring where the kernel allows it, else by threads (file_reader.h).
#pragma once
#include <memory>
#include <span>
#include <string>

#include "cache/file_reader.h"

namespace hopfeed {

/// Opens a reader by io_uring where the kernel allows it, else by threads. Throws kNoSpace.
std::unique_ptr<FileReader> open_file_reader(std::span<const int> files, const ReaderOptions& options);

/// Returns "" where io_uring can be used, else why not, as the kernel says it ("Operation not permitted").
std::string why_no_io_uring();

}  // namespace hopfeed
