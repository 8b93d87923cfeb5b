// KnownLinks has the links of a list by destination: what strict negatives must not be either, since links
// that were held out are no edges.
//
// Buckets of neighbouring destinations, four links each where they are spread evenly, sorted within: a list
// is put in order in two passes, and found in by one jump.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/prefetch.h"

namespace hopfeed {

/// It takes 18 bytes a link.
class KnownLinks {
 public:
  struct Link {
    std::int64_t destination, source;
    friend auto operator<=>(const Link&, const Link&) = default;
  };

  KnownLinks() = default;
  /// `pairs` [2P] are source and destination of each link, none below 0.
  explicit KnownLinks(std::span<const std::int64_t> pairs);

  bool contains(std::int64_t source, std::int64_t destination) const {
    return std::ranges::binary_search(bucket_of(destination),
                                      Link{.destination = destination, .source = source});
  }
  /// Has what contains() reads first of a destination fetched, and then what that leads to.
  void prefetch_place(std::int64_t destination) const {
    if (const std::size_t b = bucket(destination); b + 1 < first_.size()) prefetch_line(first_.data() + b);
  }
  void prefetch_links(std::int64_t destination) const { prefetch_line(bucket_of(destination).data()); }
  /// Returns the links that end at a node, by rising source; repeats are told as often.
  std::span<const Link> into(std::int64_t destination) const {
    const auto found = std::ranges::equal_range(bucket_of(destination), destination, {}, &Link::destination);
    return {found.begin(), found.end()};
  }
  std::size_t bytes() const {
    return links_.capacity() * sizeof(Link) + first_.capacity() * sizeof(std::size_t);
  }

 private:
  std::size_t bucket(std::int64_t destination) const {
    return static_cast<std::size_t>(destination) >> shift_;
  }
  std::span<const Link> bucket_of(std::int64_t destination) const {
    const std::size_t b = bucket(destination);
    if (b + 1 >= first_.size()) return {};
    return std::span(links_).subspan(first_[b], first_[b + 1] - first_[b]);
  }

  std::vector<Link> links_;
  std::vector<std::size_t> first_;  // [buckets + 1] where the links of each begin
  int shift_ = 0;                   // log2 of the destinations of a bucket
};

}  // namespace hopfeed
