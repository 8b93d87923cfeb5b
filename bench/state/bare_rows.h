// BareRows are an array of rows as owners store them, without an index: what reading and writing rows of it
// at random costs is the least that an owner's part of a pull or a push does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hopfeed::bench {

class BareRows {
 public:
  /// Rows lie `stride` bytes apart, each written once. Throws kNoSpace where the machine has not the memory.
  BareRows(std::int64_t rows, std::size_t stride);
  ~BareRows();
  BareRows(const BareRows&) = delete;
  BareRows& operator=(const BareRows&) = delete;

  /// Copies the first `row_bytes` of rows to `out`, side by side.
  void gather(std::span<const std::int64_t> rows, std::size_t row_bytes, std::byte* out) const;
  /// Copies rows that lie side by side into the first `row_bytes` of those.
  void scatter(std::span<const std::int64_t> rows, std::size_t row_bytes, const std::byte* from);

 private:
  const std::size_t bytes_, stride_;
  std::byte* const memory_;
};

}  // namespace hopfeed::bench
