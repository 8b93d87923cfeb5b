// Seeds that are made ahead of their batch (made_ahead.h): a batch has those of its own key, whatever was
// expected, and what goes wrong is told when the batch comes.
#include "core/seeds/made_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/maker/batch_maker.h"
#include "core/seeds/link_fields.h"
#include "core/seeds/link_list.h"
#include "core/seeds/node_fields.h"
#include "core/seeds/node_list.h"
#include "tests/core/all_kinds.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kSeeds = 200, kNodes = 500;

/// All that seeds() and its fields tell of a batch.
struct Told {
  std::vector<Ints> ids, times, excluded;
  Ints owners;
  friend bool operator==(const Told&, const Told&) = default;
};

Told told_of(const SeedFields& fields, std::span<const TypedSeeds> of_batch, int num_edge_types) {
  Told told;
  std::int64_t seeds = 0;
  for (const TypedSeeds& entry : of_batch) {
    told.ids.emplace_back(entry.ids.begin(), entry.ids.end());
    told.times.emplace_back(entry.times.begin(), entry.times.end());
    seeds += std::ssize(entry.ids);
  }
  for (int e = 0; fields.excluded() != nullptr && e < num_edge_types; ++e) {
    const ExcludedEdges::Lists lists = fields.excluded()->lists(e);
    told.excluded.emplace_back(lists.destinations.begin(), lists.destinations.end());
    told.excluded.emplace_back(lists.sources.begin(), lists.sources.end());
  }
  Ints trees;
  for (std::int64_t tree = 0; tree < seeds; ++tree) trees.push_back(tree);
  told.owners.resize(trees.size());
  fields.write_owners(trees, told.owners.data());
  return told;
}
Told told_of(SeedFields& fields, const BatchKey& key, int num_edge_types) {
  return told_of(fields, fields.seeds(key), num_edge_types);
}

class MadeAheadTest : public ::testing::Test {
 protected:
  MadeAheadTest() {
    testing::write_all_kinds_graph(folder_.path() / "graph", 3);
    dataset_.emplace(folder_.path() / "graph");
    for (std::int64_t i = 0; i < kSeeds; ++i) {
      nodes_.push_back(7 * i % kNodes);
      times_.push_back(25 + i % 20);
      pairs_.insert(pairs_.end(), {11 * i % kNodes, 13 * i % kNodes});
    }
    link_list_.emplace(pairs_, LinkListOptions{.shuffle = true, .times = times_});
    plain_links_.emplace(pairs_, LinkListOptions{.shuffle = true});
    node_list_.emplace(nodes_, NodeListOptions{.shuffle = true, .times = times_});
    plain_nodes_.emplace(nodes_, NodeListOptions{.shuffle = true});
  }
  /// Fields of each kind of seeds.
  std::vector<std::unique_ptr<SeedFields>> all_fields() const {
    std::vector<std::unique_ptr<SeedFields>> all;
    const BatchOptions timed{.fanouts = {2}, .time = "time"};
    all.push_back(std::make_unique<NodeFields>(*dataset_, *plain_nodes_, BatchOptions{.fanouts = {2}}));
    all.push_back(std::make_unique<NodeFields>(*dataset_, *node_list_, timed));
    for (const NegativeMode mode : {NegativeMode::kNone, NegativeMode::kBinary, NegativeMode::kTriplet}) {
      for (const bool strict : {false, true}) {
        if (mode == NegativeMode::kNone && strict) continue;
        const LinkOptions link{.edge_type = "to",
                               .negatives = {.mode = mode, .amount = 2, .strict = strict},
                               .exclude = Exclude::kReverse};
        all.push_back(std::make_unique<LinkFields>(*dataset_, *plain_links_,
                                                   BatchOptions{.fanouts = {2}, .link = link}));
        BatchOptions apart = timed;
        apart.link = link;
        all.push_back(std::make_unique<LinkFields>(*dataset_, *link_list_, apart));
      }
    }
    return all;
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
  Ints nodes_, times_, pairs_;
  std::optional<LinkList> link_list_, plain_links_;
  std::optional<NodeList> node_list_, plain_nodes_;
};

TEST(MadeAhead, IsMadeOnce_AndNeverForAnotherKey) {
  struct Counted {
    std::int64_t of = -1;
    static std::size_t bytes() { return 1; }
  };
  MadeAhead<Counted> seeds;
  int made = 0;
  const auto make = [&](const BatchKey& key, Counted& counted) {
    ++made;
    counted.of = key.first;
  };
  const BatchKey first{.first = 10, .count = 5}, second{.first = 15, .count = 5};
  EXPECT_EQ(seeds.take(first, make).of, 10);
  seeds.expect(second, make);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(seeds.now().of, 10);
  EXPECT_EQ(seeds.take(second, make).of, 15);
  EXPECT_EQ(made, 2) << "it was made ahead";
  EXPECT_EQ(seeds.take(second, make).of, 15);
  EXPECT_EQ(made, 3) << "what was made ahead is taken once";
  seeds.expect(second, make);
  EXPECT_EQ(seeds.take(first, make).of, 10);
  EXPECT_EQ(made, 5);
  EXPECT_EQ(seeds.take(BatchKey{}, make).of, 0) << "no key stands for nothing";
}

TEST_F(MadeAheadTest, WhateverIsExpected_ABatchHasItsOwnSeeds) {
  const std::vector<std::unique_ptr<SeedFields>> plain = all_fields(), ahead = all_fields();
  const int edge_types = dataset_->num_edge_types();
  const BatchKey asked{.seed = 3, .epoch = 2, .first = 64, .count = 64};
  std::vector<BatchKey> expected(9, asked);
  expected[1].first = 128;
  expected[2].count = 63;
  expected[3].epoch = 1;
  expected[4].seed = 4;
  expected[5].first = 190;  // 64 from there on are more than there are
  expected[6].first = -1;
  expected[7].count = 0;
  expected[8].first = INT64_MAX;
  for (std::size_t f = 0; f < plain.size(); ++f) {
    const Told want = told_of(*plain[f], asked, edge_types);
    EXPECT_FALSE(want.ids[0].empty());
    for (const BatchKey& key : expected) {
      ahead[f]->expect(key);
      EXPECT_EQ(told_of(*ahead[f], asked, edge_types), want);
      EXPECT_EQ(told_of(*ahead[f], asked, edge_types), want) << "again, with nothing made";
    }
  }
}

TEST_F(MadeAheadTest, SeedsOfTheBatchUnderWay_HoldWhileTheNextAreMade) {
  for (const std::unique_ptr<SeedFields>& fields : all_fields()) {
    for (std::int64_t first = 0; first + 40 <= kSeeds; first += 40) {
      const BatchKey key{.seed = 1, .first = first, .count = 40};
      const std::span<const TypedSeeds> seeds = fields->seeds(key);
      const Told before = told_of(*fields, seeds, dataset_->num_edge_types());
      fields->expect({.seed = 1, .first = first + 40, .count = 40});
      EXPECT_EQ(told_of(*fields, seeds, dataset_->num_edge_types()), before);
    }
  }
}

TEST_F(MadeAheadTest, WhatGoesWrong_IsToldWhenTheBatchComes) {
  Ints early(times_.size(), 25);
  early[7] = -1'000'000;  // no node exists then
  const LinkList list(pairs_, {.shuffle = false, .times = early});
  BatchOptions options{.fanouts = {2},
                       .time = "time",
                       .link = {.edge_type = "to", .negatives = {.mode = NegativeMode::kBinary}}};
  LinkFields fields(*dataset_, list, options);
  const BatchKey bad{.seed = 1, .first = 0, .count = 10}, good{.seed = 1, .first = 10, .count = 10};
  EXPECT_NO_THROW(fields.expect(bad));
  EXPECT_NO_THROW(fields.seeds(good));
  EXPECT_NO_THROW(fields.expect(bad));
  expect_refused([&] { fields.seeds(bad); }, "link 7 has no negative");
}

TEST_F(MadeAheadTest, BytesAreOfBoth) {
  for (const std::unique_ptr<SeedFields>& fields : all_fields()) {
    fields->seeds({.seed = 1, .first = 0, .count = 100});
    const std::size_t one = fields->bytes() - fields->table_bytes();
    EXPECT_GT(one, 0U);
    fields->expect({.seed = 1, .first = 100, .count = 100});
    EXPECT_GT(fields->bytes() - fields->table_bytes(), one);
    EXPECT_LE(fields->bytes() - fields->table_bytes(), 2 * fields->scratch_bytes(100));
  }
}

}  // namespace
}  // namespace hopfeed
