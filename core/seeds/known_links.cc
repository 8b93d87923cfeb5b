// See known_links.h.
#include "core/seeds/known_links.h"

namespace hopfeed {

KnownLinks::KnownLinks(std::span<const std::int64_t> pairs) {
  const std::size_t count = pairs.size() / 2;
  std::int64_t greatest = 0;
  for (std::size_t i = 0; i < count; ++i) greatest = std::max(greatest, pairs[2 * i + 1]);
  while (bucket(greatest) > count / 4) ++shift_;

  first_.resize(bucket(greatest) + 2);
  for (std::size_t i = 0; i < count; ++i) ++first_[bucket(pairs[2 * i + 1])];
  std::size_t end = 0;
  for (std::size_t& first : first_) first = end += first;  // where each ends, until its links are there
  links_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Link link{.destination = pairs[2 * i + 1], .source = pairs[2 * i]};
    links_[--first_[bucket(link.destination)]] = link;
  }
  for (std::size_t b = 0; b + 1 < first_.size(); ++b)
    std::sort(links_.data() + first_[b], links_.data() + first_[b + 1]);
}

}  // namespace hopfeed
