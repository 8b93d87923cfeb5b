// See seed_list.h.
#include "core/seed_list.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/keyed_shuffle.h"

namespace hopfeed {

SeedList::SeedList(std::span<const std::int64_t> original_ids, SeedListOptions options)
    : ids_(original_ids), options_(options) {
  if (ids_.empty())
    throw Error(ErrorCode::kInvalid,
                "the list of seeds is empty; name a split or seeds with at least one node");
}

void SeedList::seeds(const BatchKey& key, Positions& out) const {
  if (key.first < 0 || key.count < 1 || key.first > size() || key.count > size() - key.first ||
      key.epoch < 0) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("no batch of {} seeds at position {} of epoch {}: there are {} seeds", key.count,
                            key.first, key.epoch, size()));
  }
  out.index.resize(static_cast<std::size_t>(key.count));
  out.original_id.resize(out.index.size());
  if (options_.shuffle) {
    KeyedShuffle(size(), key.seed, key.epoch).positions(key.first, out.index);
  } else {
    for (std::size_t i = 0; i < out.index.size(); ++i)
      out.index[i] = key.first + static_cast<std::int64_t>(i);
  }
  for (std::size_t i = 0; i < out.index.size(); ++i) out.original_id[i] = ids_[out.index[i]];
}

}  // namespace hopfeed
