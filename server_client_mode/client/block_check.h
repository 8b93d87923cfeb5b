// A BlockCheck looks at a block from a server before anybody sees it: whether it is a block, and the one that
// was asked for.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cache/held_rows.h"
#include "core/batch/batch_key.h"
#include "core/batch/batch_spec.h"

namespace hopfeed {

class BlockCheck {
 public:
  /// `held` are the rows of this client, null where it holds none; then a packed block is refused.
  explicit BlockCheck(const BatchSpec& spec, std::shared_ptr<const HeldRows> held = {});
  /// Throws kCorrupt naming `peer` and what differs. `block` begins at a multiple of 64.
  void check(std::span<const std::byte> block, const BatchKey& asked, const std::string& peer) const;
  std::uint64_t seed() const { return seed_; }

 private:
  const std::shared_ptr<const HeldRows> held_;
  std::uint64_t fingerprint_[2] = {0, 0}, options_hash_ = 0, seed_ = 0;
};

}  // namespace hopfeed
