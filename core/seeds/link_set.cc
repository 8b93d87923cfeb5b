// See link_set.h.
#include "core/seeds/link_set.h"

#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "core/base/error.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/packed_arrays.h"

namespace hopfeed {
namespace {

/// Before the arrays, which follow in this order, 8 bytes an element.
struct PackedLinksHead {
  std::int64_t num_ids = 0, num_labels = 0, num_times = 0;
};

}  // namespace

LinkSet::LinkSet(const Dataset& dataset, int edge_type, const LinkInput& input) {
  given_ = input.pairs || !input.labels.empty() || !input.times.empty();
  if (input.pairs) {
    take_pairs(dataset.meta(), edge_type, input);
  } else if (!dataset.has_all_ids()) {
    take_ranges(dataset, edge_type, input.split);
  } else {
    const LinkSplit split = dataset.edge_split(edge_type, input.split);
    pairs_ = split.pairs;
    labels_ = split.labels;
    times_ = split.times;
    file_ = split.path;
    if (given_) check_links(dataset, edge_type, pairs_, file_);  // workers do not learn of the file
  }
  take_labels_and_times(input);
}

LinkSet::LinkSet(const DatasetMeta& meta, int edge_type, const LinkInput& input) : given_(true) {
  if (!input.pairs)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("labels or times are given for split '{}', whose links the servers alone have; "
                            "give the links beside them ({})",
                            input.split, marked("links")));
  take_pairs(meta, edge_type, input);
  take_labels_and_times(input);
}

void LinkSet::take_ranges(const Dataset& dataset, int edge_type, const std::string& split) {
  const SplitMeta of_split = find_split(dataset, Store::kEdge, edge_type, split);
  if (!given_) {
    in_ranges_ = {.name = split,
                  .size = of_split.count,
                  .has_labels = of_split.has_labels,
                  .has_times = of_split.has_times,
                  .smallest_label = of_split.smallest_label};
    return;
  }
  SplitEntries all = whole_split(dataset, Store::kEdge, edge_type, split);
  for (std::size_t i = 0; i < all.originals.size(); ++i)
    own_pairs_.insert(own_pairs_.end(), {all.originals[i], all.destination_originals[i]});
  own_labels_ = std::move(all.labels);
  own_times_ = std::move(all.times);
  pairs_ = own_pairs_;
  labels_ = own_labels_;
  times_ = own_times_;
}

void LinkSet::take_pairs(const DatasetMeta& meta, int edge_type, const LinkInput& input) {
  require_valid(input.split == LinkInput{}.split,
                fmt::format("links are given, so split '{}' is not read; leave it out", input.split));
  require_valid(
      input.pairs->size() % 2 == 0,
      fmt::format("the links have {} ends; give a source and a destination for each", input.pairs->size()));
  check_links(meta, edge_type, *input.pairs, {});
  own_pairs_ = *input.pairs;
  pairs_ = own_pairs_;
}

void LinkSet::take_labels_and_times(const LinkInput& input) {
  const auto take = [&](const std::vector<std::int64_t>& given, std::vector<std::int64_t>& own,
                        std::span<const std::int64_t>& view, const char* what, const char* field) {
    if (given.empty()) return;
    require_valid(given.size() == pairs_.size() / 2,
                  fmt::format("{}there are {} {} of links for {} links; give one for each",
                              marked_file(field), given.size(), what, pairs_.size() / 2));
    own = given;
    view = own;
  };
  take(input.labels, own_labels_, labels_, "labels", "links.labels");
  take(input.times, own_times_, times_, "times", "links.times");
}

std::vector<std::byte> LinkSet::pack() const {
  const PackedLinksHead head{
      .num_ids = std::ssize(pairs_), .num_labels = std::ssize(labels_), .num_times = std::ssize(times_)};
  std::vector<std::byte> bytes(sizeof(head) + pairs_.size_bytes() + labels_.size_bytes() +
                               times_.size_bytes());
  std::memcpy(bytes.data(), &head, sizeof(head));
  std::byte* at = bytes.data() + sizeof(head);
  for (const std::span<const std::int64_t> array : {pairs_, labels_, times_})
    at = std::ranges::copy(std::as_bytes(array), at).out;
  return bytes;
}

LinkSet::LinkSet(std::span<const std::byte> packed) : given_(true) {
  PackedArrays arrays(packed);
  const auto head = arrays.head<PackedLinksHead>();
  pairs_ = arrays.take<std::int64_t>(head.num_ids, "num_ids");
  PackedArrays::require(pairs_.size() % 2 == 0,
                        fmt::format("num_ids is {}, and links have two ends", head.num_ids));
  labels_ = arrays.take_for_each<std::int64_t>(head.num_labels, "num_labels", pairs_.size() / 2);
  times_ = arrays.take_for_each<std::int64_t>(head.num_times, "num_times", pairs_.size() / 2);
  arrays.end();
}

void LinkSet::check(const DatasetMeta& meta, int edge_type) const {
  check_links(meta, edge_type, pairs_, file_);
}

LinkList LinkSet::list(const ListOptions& options) const& {
  if (in_ranges_) return LinkList(*in_ranges_, {.edge_type = options.edge_type, .shuffle = options.shuffle});
  return LinkList(pairs_, {.edge_type = options.edge_type,
                           .shuffle = options.shuffle,
                           .labels = labels_,
                           .times = times_,
                           .file = file_});
}

}  // namespace hopfeed
