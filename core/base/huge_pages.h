// Asks for 2 MiB pages without any system setting, and reads back from the kernel what a mapping really got
// (/proc/self/smaps): advice may be refused in silence.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace hopfeed {

inline constexpr std::size_t kPageBytes = 4096, kHugePageBytes = std::size_t{2} << 20;

/// kAuto asks, and takes what comes. kNever wants 4 KiB pages. kAlways builds them now, and fails where the
/// kernel has none.
enum class HugePages { kAuto, kNever, kAlways };

/// Reads "auto", "never" or "always". Throws kInvalid.
HugePages parse_huge_pages(const std::string& text);
std::string to_string(HugePages policy);

/// PageUse says how the mappings that overlap a range are backed, in bytes of them.
struct PageUse {
  std::size_t resident = 0;
  std::size_t huge = 0;  // mapped by 2 MiB pages
};
PageUse page_use(std::span<const std::span<const std::byte>> ranges);

/// Applies `policy` to a mapping. kAuto and kNever never fail. kAlways reads the mapping in and collapses its
/// whole 2 MiB pages; for a file that happens in the page cache, so all processes of the machine share the
/// result. Returns what is missing: the bytes of whole 2 MiB pages that are still mapped by smaller ones (0:
/// all is as asked).
std::size_t advise_pages(std::span<std::byte> mapping, HugePages policy);

/// Returns a free address range's start at a multiple of 2 MiB, as a hint for mmap: only such a mapping can
/// lie on huge pages. Null where there is none.
void* huge_page_hint(std::size_t bytes);

}  // namespace hopfeed
