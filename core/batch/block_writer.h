// Lays out a batch block: arrays are announced first, so that the size is known before a byte is written;
// then the head and the gaps are written and each array is filled in place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/element_type.h"
#include "core/batch/batch_layout.h"

namespace hopfeed {

/// BlockShape is the shape of an array; that of a scalar is empty. It holds kMaxDims numbers and remembers
/// whether there were more.
class BlockShape {
 public:
  static constexpr std::size_t kMaxDims = 4;
  BlockShape(std::initializer_list<std::int64_t> dims = {}) { append({dims.begin(), dims.size()}); }
  void append(std::span<const std::int64_t> dims) {
    for (std::int64_t dim : dims) {
      if (size_ < kMaxDims) dims_[size_] = dim;
      ++size_;
    }
  }
  std::size_t size() const { return size_; }
  std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  /// Returns the dimensions of a valid shape.
  std::span<const std::int64_t> dims() const { return {dims_, size_}; }
  /// Returns whether an array can have this shape: not too many dimensions, none of them negative.
  bool valid() const {
    return size_ <= kMaxDims && std::all_of(dims_, dims_ + size_, [](std::int64_t dim) { return dim >= 0; });
  }

 private:
  std::int64_t dims_[kMaxDims] = {};
  std::size_t size_ = 0;
};

struct BlockArray {
  std::string_view name;
  Store store = Store::kBatch;
  int type = 0;
  ElementType element = ElementType::kInt64;
  BlockShape shape;
};

class BlockWriter {
 public:
  void clear() { entries_.clear(); }
  /// Announces an array; returns its number. One that no block can hold counts as kMaxBlockBytes, so that
  /// sizes of what is only planned do not wrap. Throws kInvalid for a name that is too long or a shape that
  /// cannot be.
  int add(const BlockArray& array);
  /// Returns the first array that has the name of an earlier one in the same place (store and type); none:
  /// null.
  const BlockEntry* repeated() const;
  /// Returns whether no other array has the name of this one in the same place.
  bool is_unique(int array) const;
  /// Returns the bytes of the whole block.
  std::size_t bytes() const { return align(end_of_last()); }
  /// Writes header (of the oldest version that has all the arrays), table and zeroed gaps into `block`
  /// (exactly bytes() long). `header` carries what only the caller knows.
  void begin(BlockHeader header, std::span<std::byte> block);
  std::span<const BlockEntry> entries() const { return entries_; }
  /// Returns the place of an array, after `begin`.
  template <class T>
  T* data(int array) {
    return reinterpret_cast<T*>(block_.data() + entries_[array].offset);
  }

 private:
  static std::size_t align(std::size_t n) {
    return (n + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  std::size_t end_of_last() const;
  std::vector<BlockEntry> entries_;  // offsets are relative to the first array until `begin`
  std::span<std::byte> block_;
};

}  // namespace hopfeed
