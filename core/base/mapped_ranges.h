// Tells which file lies where: all mappings of this process's MappedFiles, in a form that a signal handler
// may read. A file that is truncated while it is mapped is SIGBUS at the next read behind its new end; so a
// program's handler (core/program/bus_error.h) can name the file.
#pragma once
#include <atomic>
#include <cstddef>
#include <string>

namespace hopfeed {

/// A MappedRange is one mapping. It is kept for ever and used again, so that the handler's walk never meets
/// freed memory.
struct MappedRange {
  std::atomic<const std::byte*> begin{nullptr};  // null: not in use
  std::atomic<std::size_t> bytes{0};
  std::atomic<const char*> path{nullptr};
  MappedRange* next = nullptr;       // all of them
  MappedRange* next_free = nullptr;  // those not in use
};

/// Notes that `path` is mapped there, until forgotten.
MappedRange* note_mapped_range(const std::byte* begin, std::size_t bytes, const std::string& path);
void forget_mapped_range(MappedRange* range);

/// Returns the path of the file that is mapped at an address, or null. Async-signal-safe.
const char* mapped_path_at(const void* address);

}  // namespace hopfeed
