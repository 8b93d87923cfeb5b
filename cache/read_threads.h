// Reads files by a few threads with pread, for machines where io_uring is not allowed. As many reads are
// under way as there are threads; the others wait for one.
#pragma once
#include <memory>
#include <span>

#include "cache/file_reader.h"

namespace hopfeed {

/// Opens a reader whose threads start with the first read. Throws kNoSpace; start() throws kIo where no
/// thread can be had.
std::unique_ptr<FileReader> open_read_threads(std::span<const int> files, const ReaderOptions& options);

}  // namespace hopfeed
