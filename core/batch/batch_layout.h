// The batch block is one contiguous run of bytes, the same in a slot of shared memory, on a socket and
// in a file.
//
//   offset          size   what
//   0               128    BlockHeader
//   128             96*n   BlockEntry, one per array
//   aligned to 64   ...    the arrays in table order, each aligned to 64, gaps zeroed
//
// The block ends aligned to 64. Numbers are little-endian. The block holds nothing but the value of the
// function batch = f(dataset, options, key): timings and worker names lie in the slot's control record.
// docs/formats.md has the tables, tests/core a golden file.
#pragma once
#include <cstdint>

#include "core/batch/batch_key.h"

namespace hopfeed {

inline constexpr std::uint64_t kBlockMagic = 0x314B434C42504F48;  // "HOPBLCK1"
inline constexpr std::uint32_t kBlockVersion = 1;
/// Blocks with an array of a type with a scale (has_scale) have this version, and no others.
inline constexpr std::uint32_t kScaledBlockVersion = 2;
inline constexpr std::size_t kBlockAlignment = 64;

/// Store says whom an array belongs to: the batch as a whole, a node type or an edge type (PyG: batch,
/// batch[ntype], batch[etype]).
enum class Store : std::uint16_t { kBatch = 0, kNode = 1, kEdge = 2 };

struct BlockHeader {
  std::uint64_t magic = kBlockMagic;
  std::uint32_t version = kBlockVersion;
  std::uint32_t num_arrays = 0;
  std::uint64_t bytes = 0;                // the whole block
  std::uint64_t fingerprint[2] = {0, 0};  // the dataset's (imported content)
  std::uint64_t options_hash = 0;         // BatchOptions::hash()
  BatchKey key;
  std::uint16_t num_node_types = 1;
  std::uint16_t num_edge_types = 1;
  std::uint32_t reserved0 = 0;
  std::uint64_t reserved[5] = {0, 0, 0, 0, 0};
};
static_assert(sizeof(BlockHeader) == 128);

struct BlockEntry {
  char name[40] = {};              // PyG's name, NUL-terminated
  std::uint16_t element_type = 0;  // ElementType
  std::uint16_t num_dims = 0;      // 0 (a scalar) to 4
  std::uint16_t store = 0;         // Store
  std::uint16_t type = 0;          // node or edge type number; 0 for the batch
  std::int64_t shape[4] = {0, 0, 0, 0};
  std::uint64_t offset = 0;  // from the start of the block, a multiple of 64
  std::uint64_t bytes = 0;   // bytes_of_array: product of shape and element size
};
static_assert(sizeof(BlockEntry) == 96);

}  // namespace hopfeed
