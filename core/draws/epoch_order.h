// EpochOrder says which entries of a list a batch covers: the same for nodes (node_list.h) and links
// (link_set.h).
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <span>

#include "core/base/error.h"
#include "core/batch/batch_key.h"
#include "core/draws/keyed_shuffle.h"

namespace hopfeed {

struct EpochOrder {
  std::int64_t size = 0;  // of the list
  bool shuffle = true;
  const char* what = "seeds";  // its entries, in errors

  /// Throws kInvalid where [first, first + count) leaves the list.
  void check(const BatchKey& key) const {
    if (key.first >= 0 && key.count >= 1 && key.first <= size && key.count <= size - key.first &&
        key.epoch >= 0)
      return;
    require_valid(key.epoch >= 0, fmt::format("epoch {} is asked for; epochs are counted from 0", key.epoch));
    require_valid(key.count >= 1,
                  fmt::format("a batch of {} {} is asked for; give 1 or more", key.count, what));
    throw Error(ErrorCode::kInvalid,
                fmt::format("no batch of {} {} at position {} of epoch {}: there are {} {}", key.count, what,
                            key.first, key.epoch, size, what));
  }
  /// Fills `out` with the entries at the positions of `key`, which was checked; it has key.count of them.
  void entries(const BatchKey& key, std::span<std::int64_t> out) const {
    if (shuffle)
      KeyedShuffle(size, key.seed, key.epoch).positions(key.first, out);
    else
      std::iota(out.begin(), out.end(), key.first);
  }
};

}  // namespace hopfeed
