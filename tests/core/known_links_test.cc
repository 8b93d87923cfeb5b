// Links that are known are found, and no others, however destinations are spread over the buckets.
#include "core/seeds/known_links.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(KnownLinks, AreThoseOfTheList) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  int found = 0;
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t destinations = 1 + random() % 300, sources = 1 + random() % 20;
    Ints pairs;
    for (std::int64_t count = below(400); count > 0; --count) {
      const bool at_hub = random() % 4 == 0;
      pairs.push_back(below(sources));
      pairs.push_back(at_hub ? static_cast<std::int64_t>(destinations / 2) : below(destinations));
    }
    const KnownLinks links(pairs);
    std::multiset<std::pair<std::int64_t, std::int64_t>> expected;  // destination, source
    for (std::size_t i = 0; i < pairs.size(); i += 2) expected.insert({pairs[i + 1], pairs[i]});
    std::size_t told = 0;
    for (std::int64_t v = 0; v < static_cast<std::int64_t>(destinations) + 9; ++v) {
      for (std::int64_t u = 0; u < static_cast<std::int64_t>(sources); ++u) {
        EXPECT_EQ(links.contains(u, v), expected.contains({v, u})) << u << " to " << v;
        found += links.contains(u, v);
      }
      auto next = expected.lower_bound({v, 0});
      for (const KnownLinks::Link& link : links.into(v)) {
        ASSERT_NE(next, expected.end());
        EXPECT_EQ(*next++, std::pair(link.destination, link.source));
        ++told;
      }
    }
    EXPECT_EQ(told, expected.size());
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 1'000);
}

TEST(KnownLinks, OfNoList_AreNone) {
  EXPECT_FALSE(KnownLinks().contains(0, 0));
  EXPECT_TRUE(KnownLinks().into(3).empty());
  EXPECT_EQ(KnownLinks().bytes(), 0U);
  EXPECT_FALSE(KnownLinks(Ints{}).contains(0, 0));
}

}  // namespace
}  // namespace hopfeed
