// See link_set.h.
#include "core/seeds/link_set.h"

#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "core/base/error.h"
#include "core/base/option_name.h"

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
                            "give the links beside them (links)",
                            input.split));
  take_pairs(meta, edge_type, input);
  take_labels_and_times(input);
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
                              option_file(field), given.size(), what, pairs_.size() / 2));
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
  PackedLinksHead head;
  const auto fail = [] {
    throw Error(ErrorCode::kCorrupt, "the links that a worker was given cannot be read");
  };
  if (packed.size() < sizeof(head)) fail();
  std::memcpy(&head, packed.data(), sizeof(head));
  const auto* at = reinterpret_cast<const std::int64_t*>(packed.data() + sizeof(head));
  std::size_t left = (packed.size() - sizeof(head)) / sizeof(std::int64_t);
  const auto take = [&](std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > left) fail();
    const std::span<const std::int64_t> array(at, static_cast<std::size_t>(count));
    at += count;
    left -= static_cast<std::size_t>(count);
    return array;
  };
  pairs_ = take(head.num_ids);
  labels_ = take(head.num_labels);
  times_ = take(head.num_times);
}

LinkList LinkSet::list(const ListOptions& options) const& {
  return LinkList(pairs_, {.edge_type = options.edge_type,
                           .shuffle = options.shuffle,
                           .labels = labels_,
                           .times = times_,
                           .file = file_});
}

}  // namespace hopfeed
