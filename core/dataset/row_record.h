// A RowRecord is the record of one row, as files have it and as host and device read it.
#pragma once
#include <cstdint>

namespace hopfeed {

/// It says where the row's neighbours begin in `indices`, and the destination node's original id, together in
/// one cache line. Row i ends where row i + 1 begins; a partition stores one record more than it has nodes
/// (original_id -1 in the last).
struct RowRecord {
  std::int64_t offset;
  std::int64_t original_id;
};
static_assert(sizeof(RowRecord) == 16);

/// A HaloPlace covers 64 nodes in the order of dataset ids: which of them a halo has copies of, and how many
/// copies of nodes come before theirs. Copies lie by rising id, so one read tells where a node's is.
struct HaloPlace {
  std::uint64_t nodes;  // bit i: node 64 * place + i
  std::int64_t before;
};
static_assert(sizeof(HaloPlace) == 16);

}  // namespace hopfeed
