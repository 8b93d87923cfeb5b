// See mapped_ranges.h.
#include "core/base/mapped_ranges.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace hopfeed {
namespace {

std::mutex mutex;                        // of writers; the handler only reads atomics
std::atomic<MappedRange*> all{nullptr};  // grows at its head
MappedRange* unused = nullptr;

MappedRange* take_range() {
  if (unused != nullptr) {
    MappedRange* range = unused;
    unused = range->next_free;
    return range;
  }
  auto* range = new MappedRange;
  range->next = all.load();
  all.store(range);
  return range;
}

}  // namespace

MappedRange* note_mapped_range(const std::byte* begin, std::size_t bytes, const std::string& path) {
  char* copy = strdup(path.c_str());
  if (copy == nullptr) throw std::bad_alloc();
  const std::lock_guard lock(mutex);
  MappedRange* range = take_range();
  range->path.store(copy);
  range->bytes.store(bytes);
  range->begin.store(begin);
  return range;
}

void forget_mapped_range(MappedRange* range) {
  const std::lock_guard lock(mutex);
  range->begin.store(nullptr);
  std::free(const_cast<char*>(range->path.exchange(nullptr)));
  range->next_free = unused;
  unused = range;
}

const char* mapped_path_at(const void* address) {
  const auto* wanted = static_cast<const std::byte*>(address);
  for (const MappedRange* range = all.load(); range != nullptr; range = range->next) {
    const std::byte* begin = range->begin.load();
    if (begin != nullptr && wanted >= begin && wanted < begin + range->bytes.load())
      return range->path.load();
  }
  return nullptr;
}

}  // namespace hopfeed
