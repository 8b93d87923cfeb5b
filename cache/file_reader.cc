// See file_reader.h.
#include "cache/file_reader.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "core/base/error.h"

namespace hopfeed {

ReadBuffers::ReadBuffers(const ReaderOptions& options) : options_(options) {
  require_valid(options.depth >= 1 && options.depth <= 1024,
                fmt::format("{} reads at once cannot be; choose 1 to 1024", options.depth));
  require_valid(options.buffer_bytes > 0 && options.buffer_bytes % kReadAlign == 0,
                fmt::format("buffers of {} bytes cannot be; choose a multiple of {}", options.buffer_bytes,
                            kReadAlign));
  const std::size_t bytes = static_cast<std::size_t>(options.depth) * options.buffer_bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(fmt::format("no {} bytes to read files into", bytes), errno);
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

ReadBuffers::~ReadBuffers() {
  if (!kept_) munmap(bytes_.data(), bytes_.size());
}

}  // namespace hopfeed
