// What seeds can be: ids, masks, draws by weight, with times of their own.
#include "core/seeds/node_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "tests/core/chi_square.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

class Seeds : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_dataset(folder_.path() / "graph", testing::labelled_ring());
    dataset_.emplace(folder_.path() / "graph");
  }
  std::string refused(const NodeInput& input) const {
    try {
      NodeSet set(*dataset_, 0, input);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static NodeList::Positions all(const NodeList& list, std::int64_t epoch = 0) {
    NodeList::Positions out;
    list.seeds({.seed = 7, .epoch = epoch, .first = 0, .count = list.size()}, out);
    return out;
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

TEST_F(Seeds, OfASplit_AreTheSplit) {
  const NodeSet set(*dataset_, 0, {.split = "train"});
  EXPECT_FALSE(set.given());
  const NodeList::Positions got = all(set.list({.shuffle = false}));
  EXPECT_EQ(got.original_id, (Ints{4, 1, 0}));
  EXPECT_EQ(got.input_id, (Ints{0, 1, 2}));
}

TEST_F(Seeds, OfAMask_AreNamedByTheirNodes) {  // as PyG names them
  const NodeSet set(*dataset_, 0, {.mask = std::vector<std::uint8_t>{0, 1, 0, 1, 1, 0}});
  const NodeList::Positions got = all(set.list({.shuffle = true}));
  EXPECT_EQ(got.input_id, got.original_id);
  Ints sorted = got.original_id;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (Ints{1, 3, 4}));
}

TEST_F(Seeds, TimesGoWithTheirSeeds) {
  const NodeSet set(*dataset_, 0, {.ids = Ints{5, 2, 5}, .times = {50, 20, 51}});
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const NodeList::Positions got = all(set.list({.shuffle = true}), epoch);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(got.input_id[i]);
      EXPECT_EQ(got.original_id[i], (Ints{5, 2, 5})[at]);
      EXPECT_EQ(got.times[i], (Ints{50, 20, 51})[at]);
    }
  }
}

TEST_F(Seeds, Packed_AreTheSameForAWorker) {
  const NodeSet set(*dataset_, 0,
                    {.ids = Ints{5, 2, 5, 1}, .times = {50, 20, 51, 1}, .weights = {1, 2, 0, 3}});
  const std::vector<std::byte> bytes = set.pack();
  const NodeSet copy(bytes);
  const NodeList::Positions a = all(set.list({})), b = all(copy.list({}));
  EXPECT_EQ(a.input_id, b.input_id);
  EXPECT_EQ(a.original_id, b.original_id);
  EXPECT_EQ(a.times, b.times);
  EXPECT_THROW(NodeSet(std::span(bytes).first(bytes.size() - 8)), Error);
  EXPECT_THROW(NodeSet(std::span(bytes).first(3)), Error);
}

// A server takes packs of whoever reaches it.
TEST_F(Seeds, PackWithAFieldThatCannotBe_IsCorruptAndTheFieldIsNamed) {
  const NodeSet set(*dataset_, 0, {.ids = Ints{5, 2, 1}, .times = {50, 20, 51}, .weights = {1, 0, 3}});
  const std::vector<std::byte> good = set.pack();  // 4 fields, 3 ids, 3 times, 3 weights
  const auto why = [&](const Ints& words) {
    try {
      const NodeSet read(std::as_bytes(std::span(words)));
    } catch (const Error& error) {
      return error.code() == ErrorCode::kCorrupt ? std::string(error.what()) : "another code";
    }
    return std::string("no error");
  };
  Ints words(good.size() / 8);
  std::memcpy(words.data(), good.data(), good.size());
  EXPECT_EQ(why(words), "no error");
  const auto with = [&](std::size_t at, std::int64_t value) {
    Ints other = words;
    other[at] = value;
    return why(other);
  };
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{1}, std::int64_t{2}, std::int64_t{4},
                                   std::int64_t{1} << 61, std::int64_t{INT64_MAX}, std::int64_t{INT64_MIN}}) {
    EXPECT_NE(with(0, count), "no error") << count;
    EXPECT_NE(with(1, count).find("num_times"), std::string::npos) << count << with(1, count);
    EXPECT_NE(with(2, count).find("num_weights"), std::string::npos) << count << with(2, count);
  }
  EXPECT_NE(with(1, 0).find("24 bytes too many"), std::string::npos) << with(1, 0);
  EXPECT_NE(with(3, 2).find("named_by_node is 2"), std::string::npos) << with(3, 2);
  const auto entry = [](std::uint32_t threshold, std::uint32_t alias) {
    return static_cast<std::int64_t>(std::uint64_t{alias} << 32 | threshold);
  };
  EXPECT_NE(with(11, entry(7, 3)).find("weight 1 has alias 3 of 3"), std::string::npos);
  EXPECT_NE(with(11, entry(7, UINT32_MAX)).find("has alias"), std::string::npos);
  EXPECT_NE(with(11, entry(7, 1)).find("weight 1 has threshold 7"), std::string::npos);
  Ints more = words;
  more.push_back(0);
  EXPECT_NE(why(more).find("8 bytes too many"), std::string::npos);
  EXPECT_THROW(NodeSet(std::span(good).first(good.size() - 1)), Error);
  EXPECT_THROW(NodeSet(std::span<const std::byte>()), Error);
}

TEST_F(Seeds, PackedIdsThatAreNoNodes_AreToldByCheck) {
  for (const std::int64_t id :
       {std::int64_t{-1}, dataset_->meta().node_types[0].count, std::int64_t{1} << 40}) {
    const Ints words{2, 0, 0, 0, 1, id};
    const NodeSet read(std::as_bytes(std::span(words)));
    EXPECT_THROW(read.check(dataset_->meta(), 0), Error) << id;
  }
}

TEST_F(Seeds, DrawnByWeight_HaveTheirChances) {
  Ints ids(6);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<double> weights{1, 0, 2, 3, 10, 0.5};
  const NodeSet set(*dataset_, 0, {.ids = ids, .weights = weights});
  const NodeList list = set.list({});
  std::vector<double> counts(6);
  for (std::int64_t epoch = 0; epoch < 20'000; ++epoch)
    for (const std::int64_t i : all(list, epoch).input_id) ++counts[static_cast<std::size_t>(i)];
  double statistic = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double expected = 120'000 * weights[i] / 16.5;
    if (weights[i] == 0)
      EXPECT_EQ(counts[i], 0);
    else
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, 4))) << statistic;
}

// A position is the same seed in whatever batch covers it, so a resumed run goes on as it would have.
TEST_F(Seeds, DrawnByWeight_DoNotDependOnTheBatch) {
  const NodeSet set(*dataset_, 0, {.ids = Ints{0, 1, 2, 3, 4, 5}, .weights = {1, 2, 3, 4, 5, 6}});
  const NodeList list = set.list({});
  const NodeList::Positions whole = all(list);
  NodeList::Positions part;
  list.seeds({.seed = 7, .epoch = 0, .first = 2, .count = 3}, part);
  EXPECT_EQ(part.input_id, Ints(whole.input_id.begin() + 2, whole.input_id.begin() + 5));
}

TEST_F(Seeds, RepeatedByWeight_HaveOneLocalIdEach) {
  const NodeSet set(*dataset_, 0, {.ids = Ints{0, 1, 2, 3, 4, 5}, .weights = {0, 0, 1, 1, 0, 0}});
  const NodeList list = set.list({});
  BatchMaker maker(*dataset_, list, {.fanouts = {2}});
  const testing::Block block = testing::make_block(maker, {.seed = 2, .epoch = 0, .first = 0, .count = 6});
  EXPECT_EQ(block.view().batch_size(), 2);
  const auto index = block.view().get("seed_index", Store::kNode).as<std::int64_t>();
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(block.view().n_id()[static_cast<std::size_t>(index[i])], block.view().input_id()[i]);
}

// Both view what they are given: a temporary would be gone with the expression.
template <class Ids>
constexpr bool kMakesAList = std::is_constructible_v<NodeList, Ids, NodeListOptions>;
template <class Set>
concept GivesAList = requires(Set set) {
  std::forward<Set>(set).list({});
};

TEST(NodeListOf, ATemporary_DoesNotCompile) {
  EXPECT_FALSE(kMakesAList<Ints>);
  EXPECT_FALSE(kMakesAList<const Ints>);
  EXPECT_FALSE((kMakesAList<std::array<std::int64_t, 2>>));
  EXPECT_TRUE(kMakesAList<Ints&>);
  EXPECT_TRUE(kMakesAList<const Ints&>);
  EXPECT_TRUE(kMakesAList<std::span<const std::int64_t>>) << "of which somebody else owns the ids";
  EXPECT_FALSE(GivesAList<NodeSet>);
  EXPECT_TRUE(GivesAList<const NodeSet&>);
}

TEST_F(Seeds, ThatCannotBe_AreRefusedByName) {
  const auto expect = [&](const NodeInput& input, const std::string& part) {
    const std::string said = refused(input);
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect({.ids = Ints{0, 6}}, "seed 6 (position 1) is no node");
  expect({.mask = std::vector<std::uint8_t>{1, 1}}, "the mask of seeds has 2 entries");
  expect({.mask = std::vector<std::uint8_t>(6, 0)}, "no node set");
  expect({.ids = Ints{0}, .mask = std::vector<std::uint8_t>(6, 1)}, "give one of them");
  expect({.ids = Ints{0, 1}, .times = {3}}, "1 seed times for 2 seeds");
  expect({.ids = Ints{0, 1}, .weights = {3, 1, 2}}, "3 seed weights for 2 seeds");
  expect({.ids = Ints{0, 1}, .weights = {1, -1}}, "weights of the seeds");
  expect({.ids = Ints{0, 1}, .weights = {0, 0}}, "weights of the seeds");
  expect({.split = "nope"}, "nope");
}

TEST(SeedTimes, OfTheirOwn_BoundTheNeighbours) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "graph",
                               {.nodes = {{.name = "node", .count = 4, .time = {0, 10, 20, 30}}},
                                .edges = {{.sources = {1, 2, 3}, .destinations = {0, 0, 0}}}});
  const Dataset dataset(folder.path() / "graph");
  const NodeSet set(dataset, 0, {.ids = Ints{0, 0}, .times = {15, 25}});
  const NodeList list = set.list({.shuffle = false});
  BatchMaker maker(dataset, list, {.fanouts = {-1}, .time = "time"});
  const testing::Block block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 2});
  EXPECT_EQ(testing::ints(block.view().n_id()), (Ints{0, 0, 1, 1, 2}));
  EXPECT_EQ(testing::ints(block.view().get("seed_time", Store::kNode)), (Ints{15, 25}));
  EXPECT_THROW(BatchMaker(dataset, list, {.fanouts = {-1}}), Error) << "times that nobody asks for";
}

}  // namespace
}  // namespace hopfeed
