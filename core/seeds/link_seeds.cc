// See link_seeds.h.
#include "core/seeds/link_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/option_name.h"
#include "core/draws/epoch_order.h"

namespace hopfeed {
namespace {

/// Before the arrays, which follow in this order, 8 bytes an element.
struct PackedHead {
  std::int64_t num_ids = 0, num_labels = 0, num_times = 0;
};

}  // namespace

void check_links(const Dataset& dataset, int edge_type, std::span<const std::int64_t> pairs,
                 const std::filesystem::path& file) {
  const CscView csc = dataset.csc(edge_type);
  const std::int64_t counts[] = {csc.num_src_nodes, csc.num_dst_nodes};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] >= 0 && pairs[i] < counts[i % 2]) continue;
    const int type = i % 2 == 0 ? csc.src_type : csc.dst_type;
    const std::string what = fmt::format(
        "the {} {} of link {} is no node: type '{}' has ids 0 to {}", i % 2 == 0 ? "source" : "destination",
        pairs[i], i / 2, dataset.meta().node_types[static_cast<std::size_t>(type)].name, counts[i % 2] - 1);
    if (file.empty()) throw Error(ErrorCode::kInvalid, option_file("links") + what);
    throw Error(ErrorCode::kCorrupt, file.string() + ": " + what + "; run hopfeed-partition verify");
  }
}

LinkList::LinkList(std::span<const std::int64_t> pairs, LinkListOptions options)
    : pairs_(pairs), options_(std::move(options)) {
  require_valid(!pairs_.empty(), "the list of links is empty; name a split or pairs with at least one link");
  if (has_labels()) smallest_label_ = *std::ranges::min_element(options_.labels);
}

void LinkList::links(const BatchKey& key, Positions& out) const {
  const EpochOrder order{.size = size(), .shuffle = options_.shuffle, .what = "links"};
  order.check(key);
  const auto count = static_cast<std::size_t>(key.count);
  std::vector<std::int64_t>& index = out.input_id;
  index.resize(count);
  order.entries(key, index);
  out.sources.resize(count);
  out.destinations.resize(count);
  out.labels.resize(has_labels() ? count : 0);
  out.times.resize(has_times() ? count : 0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(index[i]);
    out.sources[i] = pairs_[2 * at];
    out.destinations[i] = pairs_[2 * at + 1];
    if (has_labels()) out.labels[i] = options_.labels[at];
    if (has_times()) out.times[i] = options_.times[at];
  }
}

LinkSet::LinkSet(const Dataset& dataset, int edge_type, const LinkInput& input) {
  given_ = input.pairs || !input.labels.empty() || !input.times.empty();
  if (input.pairs) {
    require_valid(input.split == LinkInput{}.split,
                  fmt::format("links are given, so split '{}' is not read; leave it out", input.split));
    require_valid(
        input.pairs->size() % 2 == 0,
        fmt::format("the links have {} ends; give a source and a destination for each", input.pairs->size()));
    check_links(dataset, edge_type, *input.pairs, {});
    own_pairs_ = *input.pairs;
    pairs_ = own_pairs_;
  } else {
    const LinkSplit split = dataset.edge_split(edge_type, input.split);
    pairs_ = split.pairs;
    labels_ = split.labels;
    times_ = split.times;
    file_ = split.path;
    if (given_) check_links(dataset, edge_type, pairs_, file_);  // workers do not learn of the file
  }
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
  const PackedHead head{
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
  PackedHead head;
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
