// See open_file_reader.h.
#include "cache/open_file_reader.h"

#include <cstring>

#include "cache/io_ring.h"
#include "cache/read_threads.h"

namespace hopfeed {

std::unique_ptr<FileReader> open_file_reader(std::span<const int> files, const ReaderOptions& options) {
  if (std::unique_ptr<FileReader> ring = open_io_ring(files, options)) return ring;
  return open_read_threads(files, options);
}

std::string why_no_io_uring() {
  const int error = try_io_ring();
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace hopfeed
