// See link_list.h.
#include "core/seeds/link_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/draws/epoch_order.h"

namespace hopfeed {

void check_links(const DatasetMeta& meta, int edge_type, std::span<const std::int64_t> pairs,
                 const std::filesystem::path& file) {
  const EdgeTypeMeta& edge = meta.edge_types[static_cast<std::size_t>(edge_type)];
  const NodeTypeMeta* ends[] = {&meta.node_types[static_cast<std::size_t>(meta.edge_src_type(edge))],
                                &meta.node_types[static_cast<std::size_t>(meta.edge_dst_type(edge))]};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const NodeTypeMeta& type = *ends[i % 2];
    if (pairs[i] >= 0 && pairs[i] < type.count) continue;
    const std::string what =
        fmt::format("the {} {} of link {} is no node: type '{}' has ids 0 to {}",
                    i % 2 == 0 ? "source" : "destination", pairs[i], i / 2, type.name, type.count - 1);
    if (file.empty()) throw Error(ErrorCode::kInvalid, marked_file("links") + what);
    throw Error(ErrorCode::kCorrupt, file.string() + ": " + what + "; run hopfeed-partition verify");
  }
}

LinkList::LinkList(std::span<const std::int64_t> pairs, LinkListOptions options)
    : pairs_(pairs), options_(std::move(options)) {
  require_links();
  if (has_labels()) smallest_label_ = *std::ranges::min_element(options_.labels);
}

LinkList::LinkList(LinksInRanges split, LinkListOptions options)
    : split_(std::move(split)), options_(std::move(options)), smallest_label_(split_->smallest_label) {
  require_links();
}

void LinkList::require_links() const {
  require_valid(size() > 0, "the list of links is empty; name a split or pairs with at least one link");
}

void LinkList::links(const BatchKey& key, Positions& out) const {
  const EpochOrder order{.size = size(), .shuffle = options_.shuffle, .what = "links"};
  order.check(key);
  const auto count = static_cast<std::size_t>(key.count);
  std::vector<std::int64_t>& index = out.input_id;
  index.resize(count);
  order.entries(key, index);
  if (in_ranges()) return;
  out.sources.resize(count);
  out.destinations.resize(count);
  out.labels.resize(has_labels() ? count : 0);
  out.times.resize(has_times() ? count : 0);
  for (const std::int64_t at : index) prefetch_line(pairs_.data() + 2 * at);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(index[i]);
    out.sources[i] = pairs_[2 * at];
    out.destinations[i] = pairs_[2 * at + 1];
    if (has_labels()) out.labels[i] = options_.labels[at];
    if (has_times()) out.times[i] = options_.times[at];
  }
}

}  // namespace hopfeed
