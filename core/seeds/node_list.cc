// See node_list.h.
#include "core/seeds/node_list.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/draws/epoch_order.h"
#include "core/draws/keyed_random.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed {

NodeList::NodeList(std::span<const std::int64_t> original_ids, NodeListOptions options)
    : ids_(original_ids), options_(options) {
  require_seeds();
}

NodeList::NodeList(SplitInRanges split, NodeListOptions options)
    : split_(std::move(split)), options_(options) {
  require_seeds();
}

void NodeList::require_seeds() const {
  require_valid(size() > 0, "the list of seeds is empty; name a split or seeds with at least one node");
}

void NodeList::seeds(const BatchKey& key, Positions& out) const {
  const EpochOrder order{.size = size(), .shuffle = options_.shuffle, .what = "seeds"};
  order.check(key);
  std::vector<std::int64_t>& index = out.input_id;
  index.resize(static_cast<std::size_t>(key.count));
  if (!options_.weights.empty())
    draw(key, index);
  else
    order.entries(key, index);
  out.original_id.clear();
  if (in_ranges()) return;
  out.original_id.resize(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) out.original_id[i] = ids_[index[i]];
  out.times.resize(has_times() ? index.size() : 0);
  for (std::size_t i = 0; i < out.times.size(); ++i) out.times[i] = options_.times[index[i]];
  if (options_.named_by_node) std::ranges::copy(out.original_id, index.begin());
}

void NodeList::draw(const BatchKey& key, std::span<std::int64_t> index) const {
  // Not keyed by key.first: a position of the epoch is the same seed in every batch that covers it.
  const NodeStream draws = node_stream({.purpose = Purpose::kSeeds, .seed = key.seed, .epoch = key.epoch});
  for (std::size_t i = 0; i < index.size(); ++i) {
    const NodeStream position = draws.of(static_cast<std::uint64_t>(key.first) + i);
    const AliasDraw drawn = alias_draw(position, 0, static_cast<std::uint32_t>(size()));
    index[i] = alias_position(drawn, options_.weights[drawn.column]);
  }
}

}  // namespace hopfeed
