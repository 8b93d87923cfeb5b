// The links of a list by their destinations: what strict negatives must not be beside edges, since links that were held out are none.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hopfeed {

/// 16 bytes a link.
class KnownLinks {
 public:
  struct Link {
    std::int64_t destination, source;
    friend auto operator<=>(const Link&, const Link&) = default;
  };

  KnownLinks() = default;
  /// `pairs` [2P]: source and destination of each.
  explicit KnownLinks(std::span<const std::int64_t> pairs) {
    links_.reserve(pairs.size() / 2);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
      links_.push_back({.destination = pairs[i + 1], .source = pairs[i]});
    std::ranges::sort(links_);
  }

  bool contains(std::int64_t source, std::int64_t destination) const {
    return std::ranges::binary_search(links_, Link{.destination = destination, .source = source});
  }
  /// Those that end at a node, by rising source; repeats are told as often.
  std::span<const Link> into(std::int64_t destination) const {
    const auto found = std::ranges::equal_range(links_, destination, {}, &Link::destination);
    return {found.begin(), found.end()};
  }
  std::size_t bytes() const { return links_.capacity() * sizeof(Link); }

 private:
  std::vector<Link> links_;
};

}  // namespace hopfeed
