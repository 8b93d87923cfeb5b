// A block from a server is looked at before anybody sees it: whether it is a block, and the one that was
// asked for.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/draws/batch_key.h"
#include "core/maker/batch_spec.h"

namespace hopfeed {

class BlockCheck {
 public:
  explicit BlockCheck(const BatchSpec& spec);
  /// Throws kCorrupt naming `peer` and what differs. `block` begins at a multiple of 64.
  void check(std::span<const std::byte> block, const BatchKey& asked, const std::string& peer) const;
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t fingerprint_[2] = {0, 0}, options_hash_ = 0, seed_ = 0;
};

}  // namespace hopfeed
