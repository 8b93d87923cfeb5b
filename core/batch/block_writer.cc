// See block_writer.h.
#include "core/batch/block_writer.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {

int BlockWriter::add(const BlockArray& array) {
  BlockEntry entry;
  if (array.name.empty() || array.name.size() >= sizeof(entry.name) || !array.shape.valid() ||
      (has_scale(array.element) && array.shape.size() == 0) || entries_.size() >= kMaxBlockArrays) {
    throw Error(ErrorCode::kInvalid, "no place for array '" + std::string(array.name) + "' in a batch block");
  }
  std::memcpy(entry.name, array.name.data(), array.name.size());
  entry.element_type = static_cast<std::uint16_t>(array.element);
  entry.num_dims = static_cast<std::uint16_t>(array.shape.size());
  entry.store = static_cast<std::uint16_t>(array.store);
  entry.type = static_cast<std::uint16_t>(array.type);
  std::ranges::copy(array.shape.dims(), entry.shape);
  constexpr auto kMost = static_cast<std::int64_t>(kMaxBlockBytes);
  entry.bytes = static_cast<std::uint64_t>(
      std::min(bytes_of_array(array.element, array.shape.dims()).value_or(kMost), kMost));
  entry.offset = entries_.empty() ? 0 : align(entries_.back().offset + entries_.back().bytes);
  entries_.push_back(entry);
  return static_cast<int>(entries_.size()) - 1;
}

const BlockEntry* BlockWriter::repeated() const {
  std::set<std::tuple<std::string_view, std::uint16_t, std::uint16_t>> seen;
  for (const BlockEntry& entry : entries_)
    if (!seen.emplace(entry.name, entry.store, entry.type).second) return &entry;
  return nullptr;
}

bool BlockWriter::is_unique(int array) const {
  const BlockEntry& entry = entries_[static_cast<std::size_t>(array)];
  return std::ranges::count_if(entries_, [&](const BlockEntry& other) {
           return std::strcmp(other.name, entry.name) == 0 && other.store == entry.store &&
                  other.type == entry.type;
         }) == 1;
}

std::size_t BlockWriter::end_of_last() const {
  const std::size_t head = align(sizeof(BlockHeader) + entries_.size() * sizeof(BlockEntry));
  return entries_.empty() ? head : head + entries_.back().offset + entries_.back().bytes;
}

void BlockWriter::begin(BlockHeader header, std::span<std::byte> block) {
  if (block.size() != bytes())
    throw Error(ErrorCode::kInvalid, "the place for a batch block has " + std::to_string(block.size()) +
                                         " bytes, needed are " + std::to_string(bytes()));
  block_ = block;
  const bool scaled = std::ranges::any_of(entries_, [](const BlockEntry& entry) {
    return has_scale(static_cast<ElementType>(entry.element_type));
  });
  header.version = scaled ? kScaledBlockVersion : kBlockVersion;
  header.num_arrays = static_cast<std::uint32_t>(entries_.size());
  header.bytes = block.size();
  const std::size_t table_end = sizeof(BlockHeader) + entries_.size() * sizeof(BlockEntry),
                    first = align(table_end);
  std::memcpy(block.data(), &header, sizeof(header));
  std::size_t written = table_end;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    BlockEntry& entry = entries_[i];
    entry.offset += first;
    std::memcpy(block.data() + sizeof(BlockHeader) + i * sizeof(BlockEntry), &entry, sizeof(entry));
    std::memset(block.data() + written, 0, entry.offset - written);
    written = entry.offset + entry.bytes;
  }
  std::memset(block.data() + written, 0, block.size() - written);
}

}  // namespace hopfeed
