// What the links of a loader can be: pairs, splits, with labels and times; and options of links that are
// refused.
#include "core/seeds/link_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

/// Three users, four items, three edges and a split "valid".
testing::TypedGraph likes(testing::TypedLinks valid) {
  return {.nodes = {{.name = "user", .count = 3}, {.name = "item", .count = 4}},
          .edges = {{.src = "user",
                     .rel = "likes",
                     .dst = "item",
                     .sources = {0, 1, 2},
                     .destinations = {0, 1, 3},
                     .splits = {{"valid", std::move(valid)}}}}};
}

class Links : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_typed_dataset(folder_.path() / "graph",
                                 likes({.pairs = {2, 3, 0, 1}, .labels = {4, 5}, .times = {7, 8}}));
    dataset_.emplace(folder_.path() / "graph");
  }
  std::string refused(const LinkInput& input) const {
    try {
      LinkSet set(*dataset_, 0, input);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string refused(const testing::LinkOrder& links, const BatchOptions& options) const {
    try {
      testing::make_link_batch(*dataset_, links, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static LinkList::Positions all(const LinkList& list, std::int64_t epoch = 0) {
    LinkList::Positions out;
    list.links({.seed = 7, .epoch = epoch, .first = 0, .count = list.size()}, out);
    return out;
  }
  static BatchOptions options(const LinkOptions& link) {
    BatchOptions options{.fanouts = {2}};
    options.link = link;
    return options;
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

TEST_F(Links, OfASplit_AreTheSplit) {
  const LinkSet set(*dataset_, 0, {.split = "valid"});
  EXPECT_FALSE(set.given());
  const LinkList::Positions got = all(set.list({.shuffle = false}));
  EXPECT_EQ(got.sources, (Ints{2, 0}));
  EXPECT_EQ(got.destinations, (Ints{3, 1}));
  EXPECT_EQ(got.labels, (Ints{4, 5}));
  EXPECT_EQ(got.times, (Ints{7, 8}));
  EXPECT_EQ(got.input_id, (Ints{0, 1}));
}

TEST_F(Links, LabelsAndTimesGoWithTheirLinks) {
  const LinkSet set(
      *dataset_, 0,
      {.pairs = Ints{0, 3, 1, 2, 2, 1, 0, 3}, .labels = {10, 11, 12, 13}, .times = {0, 1, 2, 3}});
  EXPECT_TRUE(set.given());
  bool moved = false;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const LinkList::Positions got = all(set.list({.shuffle = true}), epoch);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto at = static_cast<std::size_t>(got.input_id[i]);
      EXPECT_EQ(got.sources[i], (Ints{0, 1, 2, 0})[at]);
      EXPECT_EQ(got.destinations[i], (Ints{3, 2, 1, 3})[at]);
      EXPECT_EQ(got.labels[i], 10 + got.input_id[i]);
      EXPECT_EQ(got.times[i], got.input_id[i]);
      moved |= at != i;
    }
    Ints sorted = got.input_id;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, (Ints{0, 1, 2, 3}));
  }
  EXPECT_TRUE(moved);
}

TEST_F(Links, Packed_AreTheSameForAWorker) {
  const LinkSet set(*dataset_, 0, {.pairs = Ints{0, 3, 1, 2, 2, 1}, .labels = {0, 1, 2}});
  const std::vector<std::byte> bytes = set.pack();
  const LinkSet copy(bytes);
  const LinkList::Positions a = all(set.list({})), b = all(copy.list({}));
  EXPECT_EQ(a.input_id, b.input_id);
  EXPECT_EQ(a.sources, b.sources);
  EXPECT_EQ(a.destinations, b.destinations);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_TRUE(b.times.empty());
  EXPECT_THROW(LinkSet(std::span(bytes).first(bytes.size() - 8)), Error);
  EXPECT_THROW(LinkSet(std::span(bytes).first(3)), Error);
}

TEST_F(Links, PackWithAFieldThatCannotBe_IsCorruptAndTheFieldIsNamed) {
  const auto why = [&](const std::vector<std::int64_t>& words) {
    try {
      const LinkSet read(std::as_bytes(std::span(words)));
      read.check(dataset_->meta(), 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(why({4, 2, 2, 0, 1, 1, 2, 7, 8, 9, 10}), "no error");
  EXPECT_NE(why({3, 0, 0, 0, 1, 1}).find("num_ids is 3"), std::string::npos);
  EXPECT_NE(why({4, 1, 0, 0, 1, 1, 2, 7}).find("num_labels is 1"), std::string::npos);
  EXPECT_NE(why({4, 0, 3, 0, 1, 1, 2, 7, 8, 9}).find("num_times is 3"), std::string::npos);
  EXPECT_NE(why({4, 0, -1, 0, 1, 1, 2}).find("num_times is -1"), std::string::npos);
  EXPECT_NE(why({4, 0, 0, 0, 1, 1, 2, 7}).find("8 bytes too many"), std::string::npos);
  EXPECT_NE(why({INT64_MAX, 0, 0, 0, 1, 1, 2}).find("num_ids"), std::string::npos);
  EXPECT_NE(why({4, 0, 0, 0, 1, -1, 2}).find("is no node"), std::string::npos);
  EXPECT_NE(why({4, 0, 0, 0, 1, 1, std::int64_t{1} << 40}).find("is no node"), std::string::npos);
}

template <class Pairs>
constexpr bool kMakesAList = std::is_constructible_v<LinkList, Pairs, LinkListOptions>;

TEST(LinkListOf, ATemporary_DoesNotCompile) {
  EXPECT_FALSE(kMakesAList<Ints>);
  EXPECT_TRUE(kMakesAList<Ints&>);
  EXPECT_TRUE(kMakesAList<std::span<const std::int64_t>>) << "of which somebody else owns the pairs";
}

TEST_F(Links, ThatCannotBe_AreRefusedByName) {
  const auto expect = [&](const LinkInput& input, const std::string& part) {
    const std::string said = refused(input);
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect({.pairs = Ints{0, 0, 3, 1}}, "the source 3 of link 1 is no node: type 'user' has ids 0 to 2");
  expect({.pairs = Ints{0, 4}}, "the destination 4 of link 0 is no node: type 'item' has ids 0 to 3");
  expect({.pairs = Ints{-1, 0}}, "the source -1 of link 0");
  expect({.pairs = Ints{0, 0, 1}}, "the links have 3 ends");
  expect({.pairs = Ints{0, 0, 1, 1}, .labels = {1}}, "there are 1 labels of links for 2 links");
  expect({.pairs = Ints{0, 0}, .times = {1, 2}}, "there are 2 times of links for 1 links");
  expect({.split = "valid", .pairs = Ints{0, 0}}, "so split 'valid' is not read");
  expect({.split = "nope"}, "nope");
  const LinkSet none(*dataset_, 0, {.pairs = Ints{}});
  EXPECT_THROW(static_cast<void>(none.list({})), Error);
  EXPECT_THROW(dataset_->meta().edge_type("hates"), Error);
}

// The file of a split is damaged: it is named, and not the user's links.
TEST_F(Links, OfADamagedSplit_AreRefusedByItsFile) {
  testing::write_typed_dataset(folder_.path() / "damaged", likes({.pairs = {2, 3, 0, 4}}));
  const Dataset damaged(folder_.path() / "damaged");
  const auto expect_named = [](const std::function<void()>& call) {
    expect_refused(call, "valid/pairs.npy: the destination 4 of link 1 is no node", ErrorCode::kCorrupt);
  };
  const LinkSet set(damaged, 0, {.split = "valid"});
  const LinkList list = set.list({.shuffle = false});
  BatchMaker maker(damaged, list, options({.edge_type = "likes"}));
  maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = 1});
  expect_named([&] { maker.sample({.seed = 1, .epoch = 0, .first = 1, .count = 1}); });
  const NegativeOptions strict{.mode = NegativeMode::kBinary, .strict = true};
  expect_named([&] { BatchMaker(damaged, list, options({.edge_type = "likes", .negatives = strict})); });
  expect_named([&] { LinkSet(damaged, 0, {.split = "valid", .labels = {1, 2}}); });
}

TEST_F(Links, OptionsThatCannotBe_AreNamed) {
  const auto expect = [&](const LinkOptions& link, const std::string& part) {
    const std::string said = refused({.pairs = {0, 0}}, options(link));
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  const auto negatives = [](const NegativeOptions& n) {
    return LinkOptions{.edge_type = "likes", .negatives = n};
  };
  expect({.edge_type = "hates"}, "hates");
  expect(negatives({.mode = NegativeMode::kBinary, .amount = 0}), "0 negatives for each link");
  expect(negatives({.mode = NegativeMode::kBinary, .amount = kMaxNegativeAmount + 1}), "at most 65536");
  expect(negatives({.mode = NegativeMode::kTriplet, .amount = 1.5}), "choose a whole number");
  expect(negatives({.strict = true}), "amount, strict, src_weight and dst_weight are of negatives");
  expect(negatives({.mode = NegativeMode::kTriplet, .src_weight = "y"}), "triplets draw no sources");
  BatchOptions nodes{.fanouts = {2}};
  nodes.link.negatives.mode = NegativeMode::kBinary;
  EXPECT_THROW(nodes.validate(), Error) << "negatives without links";
  BatchOptions seed_time = options({.edge_type = "likes"});
  seed_time.time = seed_time.seed_time = "time";
  EXPECT_THROW(seed_time.validate(), Error);
}

TEST_F(Links, LabelsAndTimesThatDoNotFit_AreRefused) {
  const auto expect = [&](const testing::LinkOrder& links, const BatchOptions& options,
                          const std::string& part) {
    const std::string said = refused(links, options);
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  LinkOptions triplet{.edge_type = "likes", .negatives = {.mode = NegativeMode::kTriplet}};
  expect({.pairs = {0, 0}, .labels = {1}}, options(triplet), "triplets have no labels");
  LinkOptions binary{.edge_type = "likes", .negatives = {.mode = NegativeMode::kBinary}};
  expect({.pairs = {0, 0}, .labels = {-1}}, options(binary), "a label of the links is below 0");
}

TEST(LinkOptionsAsJson, AreReadBackAndToldOnlyOfLinks) {
  BatchOptions options{.fanouts = {2}};
  EXPECT_EQ(options.to_json().find("link"), std::string::npos);
  options.link = {.edge_type = "likes",
                  .negatives = {.mode = NegativeMode::kBinary,
                                .amount = 1.5,
                                .strict = true,
                                .src_weight = "a",
                                .dst_weight = "b"},
                  .exclude = Exclude::kReverse};
  const BatchOptions copy = BatchOptions::from_json(options.to_json());
  EXPECT_EQ(copy.link, options.link);
  EXPECT_EQ(copy.hash(), options.hash());
  BatchOptions other = options;
  other.link.exclude = Exclude::kNone;
  EXPECT_NE(other.hash(), options.hash());
}

}  // namespace
}  // namespace hopfeed
