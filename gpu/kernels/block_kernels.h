// These kernels write a batch block on the device from a sample that lies there: ids, edges as PyG has them,
// and what the host has written of the block (head, small arrays, gaps).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/host_device.h"
#include "gpu/kernels/device_views.h"

namespace hopfeed::gpu {

/// DeviceIdPart has the original ids of one partition's nodes: first[i * stride].
struct DeviceIdPart {
  const std::int64_t* first = nullptr;
  std::int64_t stride = 1;
  const std::int64_t* hot = nullptr;  // the same of the first num_hot, in the device's memory (hot_prefix.h)
  std::int64_t num_hot = 0;

  HOPFEED_HOST_DEVICE std::int64_t original(std::int64_t i) const {
    return (i < num_hot ? hot : first)[i * stride];
  }
};

/// DeviceIds has the original ids of one node type, by dataset id.
struct DeviceIds {
  const DeviceIdPart* parts = nullptr;              // [num_parts]
  const std::int64_t* partition_offsets = nullptr;  // [num_parts + 1]
  int num_parts = 0;

  HOPFEED_HOST_DEVICE std::int64_t original(std::int64_t node) const {
    const int p = partition_of(partition_offsets, num_parts, node);
    return parts[p].original(node - partition_offsets[p]);
  }
};

/// Item i of the nodes writes the id that a batch has, of ids that may be packed with their trees.
struct WriteOriginalIds {
  const std::int64_t* ids;
  std::uint64_t mask;         // of the node in an id
  const std::int64_t* known;  // original ids of the first nodes, whose rows were read
  std::uint64_t num_known;
  DeviceIds table;
  std::int64_t* out;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = i < num_known
                 ? known[i]
                 : table.original(static_cast<std::int64_t>(static_cast<std::uint64_t>(ids[i]) & mask));
  }
};

/// Item i of the nodes writes its dataset id.
struct WriteDatasetIds {
  const std::int64_t* ids;
  std::uint64_t mask;
  std::int64_t* out;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(ids[i]) & mask);
  }
};

/// Item i of the nodes of a disjoint batch writes the position that its tree belongs to.
struct WriteOwners {
  const std::int64_t* ids;
  int node_bits;
  const std::int64_t* owner_of;  // [trees]
  std::int64_t* out;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = owner_of[static_cast<std::uint64_t>(ids[i]) >> node_bits];
  }
};

/// Item e of the edges writes row 0 of edge_index and row 1.
struct WriteEdgeIndex {
  const std::uint32_t *sources, *targets;
  std::uint64_t count;
  std::int64_t* out;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t e) const {
    out[e] = sources[e];
    out[count + e] = targets[e];
  }
};

/// A HostRun is a run of bytes that the host has written.
struct HostRun {
  std::uint64_t from = 0;  // in what was sent, where the runs lie one behind the other
  std::uint64_t to = 0;    // in the block
};

/// Item i of the bytes of all runs writes a byte.
struct WriteHostRuns {
  const std::byte* bytes;
  const HostRun* runs;
  std::uint64_t num_runs;
  std::byte* block;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t lo = 0, hi = num_runs;
    while (hi - lo > 1) {
      const std::uint64_t mid = (lo + hi) / 2;
      if (runs[mid].from <= i)
        lo = mid;
      else
        hi = mid;
    }
    block[runs[lo].to + (i - runs[lo].from)] = bytes[i];
  }
};

}  // namespace hopfeed::gpu
