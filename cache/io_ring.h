// Reads files by io_uring (Axboe, "Efficient IO with io_uring", 2019): requests and answers lie in rings that
// the kernel shares, so that one system call begins many reads and takes many answers.
#pragma once
#include <memory>
#include <span>

#include "cache/file_reader.h"

namespace hopfeed {

/// Opens a reader; null where the kernel has no io_uring or forbids it (seccomp, the sysctl
/// kernel.io_uring_disabled, a limit on locked memory). Buffers are registered where the limit on locked
/// memory lets them be.
std::unique_ptr<FileReader> open_io_ring(std::span<const int> files, const ReaderOptions& options);

/// Returns 0, or the errno that says why there is no ring.
int try_io_ring();

}  // namespace hopfeed
