// See ordered_ids.h.
#include "core/seeds/ordered_ids.h"

#include <algorithm>
#include <array>

namespace hopfeed {

void OrderedIds::order(std::vector<std::int64_t>& ids) {
  sorted_.resize(ids.size());
  places_.resize(ids.size());
  std::int64_t greatest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sorted_[i] = {.id = ids[i], .number = i};
    greatest = std::max(greatest, ids[i]);
  }
  sort(greatest);
  std::size_t count = 0;
  for (const Numbered& entry : sorted_) {
    if (count == 0 || ids[count - 1] != entry.id) ids[count++] = entry.id;
    places_[entry.number] = static_cast<std::int64_t>(count) - 1;
  }
  ids.resize(count);
}

/// Byte by byte, the lowest first.
void OrderedIds::sort(std::int64_t greatest) {
  constexpr int kBits = 8;
  constexpr std::int64_t kDigits = std::int64_t{1} << kBits;
  spare_.resize(sorted_.size());
  for (int shift = 0; shift < 64 && greatest >> shift != 0; shift += kBits) {
    const auto digit = [shift](const Numbered& entry) {
      return static_cast<std::size_t>(entry.id >> shift & (kDigits - 1));
    };
    std::array<std::size_t, kDigits> next{};
    for (const Numbered& entry : sorted_) ++next[digit(entry)];
    std::size_t before = 0;
    for (std::size_t& first : next) {
      const std::size_t here = first;
      first = before;
      before += here;
    }
    for (const Numbered& entry : sorted_) spare_[next[digit(entry)]++] = entry;
    sorted_.swap(spare_);
  }
}

std::size_t OrderedIds::bytes() const {
  return sizeof(Numbered) * (sorted_.capacity() + spare_.capacity()) +
         sizeof(std::int64_t) * places_.capacity();
}

std::size_t OrderedIds::max_bytes(std::size_t count) {
  return 2 * count * (2 * sizeof(Numbered) + sizeof(std::int64_t));  // vectors that grew
}

}  // namespace hopfeed
