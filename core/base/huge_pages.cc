// See huge_pages.h.
#include "core/base/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "core/base/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc 2.36 knows it, older ones do not
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace hopfeed {
namespace {

// The 2 MiB pages that lie wholly inside a mapping.
std::span<std::byte> whole_huge_pages(std::span<std::byte> mapping) {
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
  const std::uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes,
                       last = (begin + mapping.size()) / kHugePageBytes * kHugePageBytes;
  if (first >= last) return {};
  return mapping.subspan(first - begin, last - first);
}

}  // namespace

HugePages parse_huge_pages(const std::string& text) {
  if (text == "auto") return HugePages::kAuto;
  if (text == "never") return HugePages::kNever;
  if (text == "always") return HugePages::kAlways;
  throw Error(ErrorCode::kInvalid, "huge pages '" + text + "' are none of auto, never, always");
}

std::string to_string(HugePages policy) {
  return policy == HugePages::kNever ? "never" : policy == HugePages::kAlways ? "always" : "auto";
}

PageUse page_use(std::span<const std::span<const std::byte>> ranges) {
  const auto overlaps = [&](std::uintptr_t from, std::uintptr_t to) {
    return std::any_of(ranges.begin(), ranges.end(), [&](std::span<const std::byte> range) {
      const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
      return from < begin + range.size() && begin < to;
    });
  };
  PageUse use;
  bool inside = false;
  std::ifstream smaps("/proc/self/smaps");
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0;
    if (line.find('-') < line.find(' ') && std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2) {
      inside = overlaps(from, to);
      continue;
    }
    unsigned long kib = 0;
    char key[32] = {};
    if (!inside || std::sscanf(line.c_str(), "%31[^:]: %lu kB", key, &kib) != 2) continue;
    const std::string name = key;
    if (name == "Rss") use.resident += kib * 1024;
    if (name == "AnonHugePages" || name == "ShmemPmdMapped" || name == "FilePmdMapped")
      use.huge += kib * 1024;
  }
  return use;
}

std::size_t advise_pages(std::span<std::byte> mapping, HugePages policy) {
  if (policy == HugePages::kNever) {
    ::madvise(mapping.data(), mapping.size(), MADV_NOHUGEPAGE);
    return 0;
  }
  const std::span<std::byte> whole = whole_huge_pages(mapping);
  if (whole.empty()) return 0;
  ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  if (policy == HugePages::kAuto) return 0;
  ::madvise(mapping.data(), mapping.size(), MADV_POPULATE_READ);
  ::madvise(whole.data(), whole.size(), MADV_COLLAPSE);
  const std::span<const std::byte> ranges[] = {mapping};
  const std::size_t huge = page_use(ranges).huge;
  return huge < whole.size() ? whole.size() - huge : 0;
}

void* huge_page_hint(std::size_t bytes) {
  void* wide =
      ::mmap(nullptr, bytes + kHugePageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return nullptr;
  ::munmap(wide, bytes + kHugePageBytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(wide);
  return reinterpret_cast<void*>((begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
}

}  // namespace hopfeed
