// See row_gather.h.
#include "core/dataset/row_gather.h"

#include <cstring>

#include "core/base/prefetch.h"

namespace hopfeed {
namespace {

constexpr std::size_t kCacheLine = 64;
// Bytes of rows that are under way: enough to cover the latency of memory, small enough to stay in the
// first-level cache.
constexpr std::size_t kAheadBytes = 8 << 10;
constexpr std::size_t kMinAhead = 4, kMaxAhead = 64;

std::size_t rows_ahead(std::size_t row_bytes) {
  const std::size_t rows = kAheadBytes / (row_bytes + 1);
  return rows < kMinAhead ? kMinAhead : rows > kMaxAhead ? kMaxAhead : rows;
}

// kRowBytes > 0: the width is known to the compiler, a row is one load and one store.
template <std::size_t kRowBytes, class RowAt>
void gather(std::size_t count, std::size_t row_bytes, RowAt row_at, std::byte* out) {
  const std::size_t bytes = kRowBytes ? kRowBytes : row_bytes, ahead = rows_ahead(bytes);
  const auto prefetch = [&](std::size_t i) {
    const std::byte *row = row_at(i), *end = row + bytes;
    // From the start of its first line on: no line twice, and the last one too where the row lies across one
    // more.
    for (row -= reinterpret_cast<std::uintptr_t>(row) % kCacheLine; row < end; row += kCacheLine)
      prefetch_line(row);
  };
  for (std::size_t i = 0; i < ahead && i < count; ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch(i + ahead);
    std::memcpy(out + i * bytes, row_at(i), bytes);
  }
}

template <class RowAt>
void gather_any(std::size_t count, std::size_t row_bytes, RowAt row_at, std::byte* out) {
  switch (row_bytes) {
    case 1:
      return gather<1>(count, row_bytes, row_at, out);
    case 4:
      return gather<4>(count, row_bytes, row_at, out);
    case 8:
      return gather<8>(count, row_bytes, row_at, out);
    default:
      return gather<0>(count, row_bytes, row_at, out);
  }
}

}  // namespace

void gather_rows(const AttrView& attr, std::span<const std::int64_t> ids, std::byte* out) {
  const std::int64_t stride = attr.stride_bytes;
  if (attr.parts.size() == 1) {
    const std::byte* base = attr.parts[0];
    gather_any(
        ids.size(), static_cast<std::size_t>(attr.row_bytes),
        [&](std::size_t i) { return base + ids[i] * stride; }, out);
  } else {
    gather_any(
        ids.size(), static_cast<std::size_t>(attr.row_bytes),
        [&](std::size_t i) {
          const int p = partition_of(attr.partition_offsets, ids[i]);
          return attr.parts[p] + (ids[i] - attr.partition_offsets[p]) * stride;
        },
        out);
  }
}

void gather_original_ids(const CscView& csc, std::span<const std::int64_t> nodes, std::int64_t* out) {
  gather<8>(
      nodes.size(), sizeof(std::int64_t),
      [&](std::size_t i) {
        const int p = csc.parts.size() == 1 ? 0 : partition_of(csc.partition_offsets, nodes[i]);
        return reinterpret_cast<const std::byte*>(
            &csc.parts[p].rows[nodes[i] - csc.partition_offsets[p]].original_id);
      },
      reinterpret_cast<std::byte*>(out));
}

}  // namespace hopfeed
