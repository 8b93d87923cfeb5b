// See held_split.h.
#include "core/maker/held_split.h"

#include <cstddef>

#include "core/dataset/graph_view.h"

namespace hopfeed {

void HeldSplit::split(std::span<const std::int64_t> ids, std::span<const std::int64_t> partition_offsets,
                      HeldShare share) {
  lacking_.clear();
  held_.clear();
  lacking_.reserve(ids.size());  // exactly, so that max_bytes() holds
  held_.reserve(ids.size());
  bits_.assign((ids.size() + 7) / 8, 0);
  first_held_.clear();
  first_held_.reserve(partition_offsets.size() - 1);
  std::int64_t before = 0;
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p) {
    first_held_.push_back(before);
    before += share.rows(partition_offsets[p + 1] - partition_offsets[p]);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto p =
        static_cast<std::size_t>(partition_offsets.size() == 2 ? 0 : partition_of(partition_offsets, ids[i]));
    const std::int64_t row = ids[i] - partition_offsets[p],
                       end = p + 1 < first_held_.size() ? first_held_[p + 1] : before;
    if (row < end - first_held_[p]) {
      bits_[i / 8] = static_cast<std::uint8_t>(bits_[i / 8] | 1U << i % 8);
      held_.push_back(static_cast<std::uint32_t>(first_held_[p] + row));
    } else {
      lacking_.push_back(ids[i]);
    }
  }
}

std::size_t HeldSplit::bytes() const {
  return lacking_.capacity() * sizeof(lacking_[0]) + bits_.capacity() * sizeof(bits_[0]) +
         held_.capacity() * sizeof(held_[0]) + first_held_.capacity() * sizeof(first_held_[0]);
}

std::size_t HeldSplit::max_bytes(std::size_t ids, std::size_t partitions) {
  return ids * (sizeof(lacking_[0]) + sizeof(held_[0])) + (ids + 7) / 8 + partitions * sizeof(first_held_[0]);
}

}  // namespace hopfeed
