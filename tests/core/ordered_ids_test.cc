// Ids in order, each once, against a set of them.
#include "core/seeds/ordered_ids.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <vector>

namespace hopfeed {
namespace {

using Ids = std::vector<std::int64_t>;

void expect_in_order(const Ids& given, OrderedIds& ordered) {
  Ids ids = given;
  ordered.order(ids);
  const std::set<std::int64_t> expected(given.begin(), given.end());
  EXPECT_EQ(ids, Ids(expected.begin(), expected.end()));
  ASSERT_EQ(ordered.places().size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = static_cast<std::size_t>(ordered.places()[i]);
    ASSERT_LT(place, ids.size());
    EXPECT_EQ(ids[place], given[i]) << "id number " << i;
  }
  EXPECT_LE(ordered.bytes(), OrderedIds::max_bytes(given.size()));
}

TEST(OrderedIds, OfEveryWidth_AreEachOnceAndFoundAgain) {
  std::mt19937_64 random(5);
  for (int bits = 0; bits < 64; ++bits) {
    const std::int64_t greatest = std::numeric_limits<std::int64_t>::max() >> (63 - bits);
    std::uniform_int_distribution<std::int64_t> any(0, greatest);
    Ids ids{greatest, 0, greatest};
    while (ids.size() < 300) ids.push_back(random() % 4 == 0 ? ids[random() % ids.size()] : any(random));
    OrderedIds ordered;
    expect_in_order(ids, ordered);
  }
}

TEST(OrderedIds, NothingIsLeftOfWhatCameBefore) {
  OrderedIds ordered;
  Ids many(1000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i * 7919 % 997);
  const auto order = [&](Ids ids) {
    ordered.order(ids);
    return ids;
  };
  EXPECT_EQ(order(many).size(), 997u);
  EXPECT_EQ(order({}), Ids());
  EXPECT_TRUE(ordered.places().empty());
  EXPECT_EQ(order({3}), Ids({3}));
  EXPECT_EQ(order({0, 0}), Ids({0}));
  EXPECT_EQ(Ids(ordered.places().begin(), ordered.places().end()), Ids({0, 0}));
}

}  // namespace
}  // namespace hopfeed
