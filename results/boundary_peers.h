// BoundaryPeers bring rows of layers that other machines compute.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "results/layer_files.h"

namespace hopfeed {

class BoundaryPeers {
 public:
  virtual ~BoundaryPeers() = default;
  /// Writes rows of a partition of this run, by their rising numbers in it, `row_bytes` each. Waits while its
  /// machine has not computed them yet. Throws kTimeout where for long nobody computes them, kInvalid where
  /// another run is computed there instead, kCorrupt.
  virtual void fetch(RunId run, const LayerName& name, int partition, std::span<const std::uint32_t> rows,
                     std::int64_t row_bytes, std::byte* out) = 0;
  /// Tells all others that this machine needs no more rows of the table; with `wait` again, until they have
  /// noted it, but not for ever. Returns whether they have.
  virtual bool note_fetched(RunId run, const LayerName& name, bool wait) = 0;
};

}  // namespace hopfeed
