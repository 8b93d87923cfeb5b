// A batch is a pure function: not of the cut, the width of the ids on disk, the history of the maker or its
// relabel table.
#include <gtest/gtest.h>

#include <random>

#include "core/batch/field_names.h"
#include "core/dataset/time_codes.h"
#include "core/draws/one_tree_relabel.h"
#include "core/draws/relabel_table.h"
#include "core/draws/seed_places.h"
#include "tests/core/address_limit.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

std::vector<std::uint64_t> digests(const Dataset& dataset, const BatchOptions& options) {
  const NodeList list(dataset.split(0, "train"), {.node_type = 0, .shuffle = true});
  BatchMaker maker(dataset, list, options);
  std::vector<std::uint64_t> out;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t first = 0; first < list.size(); first += 32) {
      const BatchKey key{.seed = 3,
                         .epoch = epoch,
                         .first = first,
                         .count = std::min<std::int64_t>(32, list.size() - first)};
      out.push_back(testing::make_block(maker, key).view().digest());
    }
  }
  return out;
}

TEST(Purity, TheCutAndTheWidthOfIdsAreInvisible) {
  testing::TempFolder folder;
  const auto graph =
      testing::random_graph({.num_nodes = 500, .num_edges = 6'000, .num_train = 200, .seed = 8});
  const BatchOptions options{.fanouts = {5, -1, 3}, .edge_ids = true};
  std::vector<std::vector<std::uint64_t>> all;
  for (int partitions : {1, 2, 3, 7}) {
    for (bool wide : {false, true}) {
      auto cut = testing::random_cut(graph, partitions, static_cast<std::uint64_t>(partitions));
      cut.wide_ids = wide;
      testing::write_tiny_dataset(folder.path() / "graph", graph, cut);
      all.push_back(digests(Dataset(folder.path() / "graph"), options));
    }
  }
  for (const auto& one : all) EXPECT_EQ(one, all[0]);
}

TEST(Purity, DatasetIdsNameTheSameNodes) {
  testing::TempFolder folder;
  const auto graph = testing::random_graph({.num_nodes = 200, .num_edges = 2'000, .seed = 2});
  testing::write_tiny_dataset(folder.path() / "graph", graph, testing::random_cut(graph, 3, 9));
  const Dataset dataset(folder.path() / "graph");
  const auto original = testing::make_batch(dataset, {.seeds = {5, 17, 99}}, {.fanouts = {4, 4}});
  const auto own =
      testing::make_batch(dataset, {.seeds = {5, 17, 99}}, {.fanouts = {4, 4}, .dataset_ids = true});
  const auto nodes = original.view().n_id();
  EXPECT_FALSE(original.view().has(batch_field::kDatasetId, Store::kNode));
  const auto ids = own.view().get(batch_field::kDatasetId, Store::kNode).as<std::int64_t>();
  EXPECT_TRUE(std::ranges::equal(own.view().n_id(), nodes)) << "it stands beside n_id";
  ASSERT_EQ(ids.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(dataset.dataset_id(0, nodes[i]), ids[i]);
}

TEST(Purity, TheHistoryOfAMakerIsInvisible) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph",
                              testing::random_graph({.num_nodes = 300, .num_edges = 3'000, .seed = 4}));
  const Dataset dataset(folder.path() / "graph");
  const NodeList list(dataset.split(0, "train"), {});
  BatchMaker used(dataset, list, {.fanouts = {5, 5}}), fresh(dataset, list, {.fanouts = {5, 5}});
  const BatchKey key{.seed = 1, .epoch = 0, .first = 64, .count = 20};
  for (std::int64_t i = 0; i < 1'000; ++i)
    used.sample({.seed = 9, .epoch = i, .first = i % 50, .count = 1 + i % 60});
  EXPECT_EQ(testing::make_block(used, key).view().digest(), testing::make_block(fresh, key).view().digest());
}

TEST(Purity, OtherKeysAndOptionsGiveOtherBatches) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph",
                              testing::random_graph({.num_nodes = 300, .num_edges = 6'000, .seed = 4}));
  const Dataset dataset(folder.path() / "graph");
  const NodeList list(dataset.split(0, "train"), {});
  BatchMaker maker(dataset, list, {.fanouts = {3, 3}});
  const BatchKey base{.seed = 1, .epoch = 0, .first = 0, .count = 20};
  const auto digest = [&](BatchKey key) { return testing::make_block(maker, key).view().digest(); };
  EXPECT_EQ(digest(base), digest(base));
  EXPECT_NE(digest(base), digest({.seed = 2, .epoch = 0, .first = 0, .count = 20}));
  EXPECT_NE(digest(base), digest({.seed = 1, .epoch = 1, .first = 0, .count = 20}));
  EXPECT_NE(digest(base), digest({.seed = 1, .epoch = 0, .first = 1, .count = 20}));
}

// Both relabel tables against each other over many batches; small generations make the direct one wrap.
TEST(RelabelTable, DirectAndHashedGiveTheSameLocalIds) {
  std::mt19937_64 random(6);
  DirectRelabel direct(1 << 22);
  HashRelabel hashed(1 << 22);
  LocalNodes a, b;
  for (int batch = 0; batch < 1'500; ++batch) {
    direct.begin_batch(a);
    hashed.begin_batch(b);
    const int nodes = batch % 100 == 0 ? 20'000 : 50;
    for (int i = 0; i < nodes; i += 10) {
      direct.make_room(a, 10);
      hashed.make_room(b, 10);
      std::uint32_t locals[2][10];
      DirectRelabel::Inserter into_direct(direct, a, locals[0]);
      HashRelabel::Inserter into_hashed(hashed, b, locals[1]);
      for (std::size_t j = 0; j < 10; ++j) {
        const std::uint64_t node = random() % (batch % 3 ? 40 : 1 << 22);
        into_direct.insert(node, j);
        into_hashed.insert(node, j);
        ASSERT_EQ(locals[0][j], locals[1][j]);
      }
      into_direct.close();
      into_hashed.close();
    }
    ASSERT_EQ(a.count, b.count);
    for (std::uint32_t i = 0; i < a.count; ++i) ASSERT_EQ(a.ids[i], b.ids[i]);
  }
}

// Hop after hop by rising tree; trees of one node beside trees of thousands.
TEST(RelabelTable, OneTreeAtATimeGivesTheLocalIdsOfAllTrees) {
  constexpr int kNodeBits = 20, kHops = 4;
  std::mt19937_64 random(7);
  OneTreeRelabel one(kNodeBits);
  TreeRelabel all(1 << 19);
  LocalNodes a, b;
  for (int batch = 0; batch < 30; ++batch) {
    one.begin_batch(a);
    all.begin_batch(b);
    const std::uint64_t trees = 1 + random() % 20;
    for (int hop = 0; hop <= kHops; ++hop) {
      std::vector<std::uint64_t> ids;
      for (std::uint64_t tree = 0; tree < trees; ++tree) {
        const std::uint64_t most = hop == 0 ? 1 : tree % 5 == 0 ? 3'000 : 10;
        for (std::uint64_t n = hop == 0 ? 1 : random() % most; n > 0; --n)
          ids.push_back(tree << kNodeBits | random() % (random() % 2 ? 50 : 1 << 19));
      }
      for (std::size_t begin = 0; begin < ids.size(); begin += 100) {
        const std::size_t count = std::min<std::size_t>(100, ids.size() - begin);
        one.make_room(a, count);
        all.make_room(b, count);
        std::uint32_t locals[2][100];
        OneTreeRelabel::Inserter into_one(one, a, locals[0]);
        TreeRelabel::Inserter into_all(all, b, locals[1]);
        for (std::size_t j = 0; j < count; ++j) {
          into_one.insert(ids[begin + j], j);
          into_all.insert(ids[begin + j], j);
          ASSERT_EQ(locals[0][j], locals[1][j]) << "batch " << batch << ", hop " << hop;
        }
        into_one.close();
        into_all.close();
      }
    }
    ASSERT_EQ(a.count, b.count);
    for (std::uint32_t i = 0; i < a.count; ++i) ASSERT_EQ(a.ids[i], b.ids[i]);
  }
}

TEST(TimeBracket, HoldsWhatIsSearchedForWhateverTheGuess) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::int16_t> codes(random() % (round % 10 ? 60 : 3'000));
    for (std::int16_t& code : codes) code = static_cast<std::int16_t>(random() % 40 - 20);
    std::sort(codes.begin(), codes.end());
    const auto past = static_cast<std::int32_t>(random() % 44) - 22;
    TimeBracket bracket(codes.size(), random() % (codes.size() + 1));
    bracket.widen(codes.data(), codes.size(), past);
    const auto expected =
        static_cast<std::uint64_t>(std::lower_bound(codes.begin(), codes.end(), past) - codes.begin());
    ASSERT_LE(bracket.begin, expected);
    ASSERT_GE(bracket.end, expected);
    ASSERT_LE(bracket.end, codes.size());
  }
}

// Whatever the bounds: what the codes of a place leave open is in its own class.
TEST(TimePlace, SaysOfEachTimeWhetherItIsPastOrOpen) {
  std::mt19937_64 random(10);
  const auto number = [&] {
    constexpr std::int64_t kEnds[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX};
    return random() % 8 ? static_cast<std::int64_t>(random() % 60) - 30 : kEnds[random() % std::size(kEnds)];
  };
  int open = 0, closed = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::int64_t> sample(random() % 12);
    for (std::int64_t& time : sample) time = number();
    const std::vector<std::int64_t> bounds = time_bounds(sample);
    const std::int64_t now = number(), time = number();
    const TimePlace place(bounds, now);
    const std::int16_t code = time_code(bounds, time);
    if (place.open && code == place.past) {
      ++open;
    } else {
      ++closed;
      ASSERT_EQ(code < place.past, time <= now) << time << " and " << now;
    }
    ASSERT_GE(time_code(bounds, INT64_MAX), code);
  }
  EXPECT_GT(open, 1'000);
  EXPECT_GT(closed, 10'000);
}

TEST(SeedPlaces, OfTheEndsOfTime_HaveNoWindowThatBeginsBeforeThem) {
  constexpr std::int64_t kFirst = INT64_MIN, kLast = INT64_MAX;
  const std::vector<std::int64_t> bounds{-5, 0, 5};
  for (const std::int64_t window : {std::int64_t{1}, std::int64_t{40}, kLast}) {
    const std::vector<std::int64_t> times{kFirst, kFirst + window - 1, kFirst + window, kLast};
    SeedPlaces places;
    places.find(bounds, times, {.time_window = window});
    ASSERT_EQ(places.ends().size(), times.size());
    ASSERT_EQ(places.begins().size(), times.size());
    for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(places.ends()[i].time, times[i]);
    for (const std::size_t early : {0, 1}) {
      EXPECT_EQ(places.begins()[early].past, INT16_MIN) << "nothing is too early";
      EXPECT_FALSE(places.begins()[early].open);
    }
    EXPECT_EQ(places.begins()[2].time, kFirst);
    EXPECT_EQ(places.begins()[3].time, kLast - window);
  }
  for (const std::int64_t start : {kFirst, std::int64_t{-3}, std::int64_t{0}, kLast}) {
    SeedPlaces places;
    places.find(bounds, std::vector<std::int64_t>{kFirst, 4, kLast}, {.time_window = 6, .time_start = start});
    EXPECT_EQ(places.begins()[0].time, start == kFirst ? INT64_MIN : start - 1);
    EXPECT_EQ(places.begins()[1].time, start == kFirst ? -2 : std::max<std::int64_t>(-2, start - 1));
    EXPECT_EQ(places.begins()[2].time, std::max(kLast - 6, start == kFirst ? kFirst : start - 1));
  }
  SeedPlaces all;
  all.find(bounds, std::vector<std::int64_t>{1}, {});
  EXPECT_TRUE(all.begins().empty());
}

// Half of all edges have one time: it is half of the bounds, so that codes stay shares.
TEST(TimeBounds, OfATimeThatManyHave_AreItsShare) {
  std::vector<std::int64_t> sample(kTimeSamples);
  for (std::size_t i = 0; i < sample.size(); ++i)
    sample[i] = i % 2 ? 1'000'000'000 : static_cast<std::int64_t>(i);
  const std::vector<std::int64_t> bounds = time_bounds(std::move(sample));
  EXPECT_NEAR(TimePlace(bounds, 999'999'999).share, 0.5, 0.001);
  EXPECT_NEAR(TimePlace(bounds, 1'000'000'000).share, 1, 0.001);
  EXPECT_NEAR(TimePlace(bounds, kTimeSamples / 2).share, 0.25, 0.001);
}

TEST(TimeBounds, OfManyTimes_CutThemIntoEqualClasses) {
  std::vector<std::int64_t> sample(kTimeSamples);
  for (std::size_t i = 0; i < sample.size(); ++i)
    sample[i] = static_cast<std::int64_t>(sample.size() - i) * 7;
  const std::vector<std::int64_t> bounds = time_bounds(sample);
  ASSERT_EQ(bounds.size(), kMaxTimeBounds);
  std::vector<int> of_code(kMaxTimeBounds + 1);
  for (const std::int64_t time : sample)
    ++of_code[static_cast<std::size_t>(time_code(bounds, time) - INT16_MIN)];
  EXPECT_GE(std::ranges::min(of_code), 3);
  EXPECT_LE(std::ranges::max(of_code), 5);
}

TEST(TimeBracket, HoldsMostOfWhatIsSearchedForFromTheBeginning) {
  constexpr std::size_t kRows = 300, kDegree = 400;
  std::mt19937_64 random(9);
  const auto time = [&] { return static_cast<std::int64_t>(random() % 1'000'000) - 500'000; };
  std::vector<std::int64_t> sample(kTimeSamples);
  std::ranges::generate(sample, time);
  const std::vector<std::int64_t> bounds = time_bounds(std::move(sample));
  std::size_t found = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    std::vector<std::int16_t> codes(kDegree);
    for (std::int16_t& code : codes) code = time_code(bounds, time());
    std::ranges::sort(codes);
    const TimePlace place(bounds, time());
    const std::uint64_t first = TimeBracket::guess(kDegree, place);
    const TimeBracket bracket(kDegree, TimeBracket::better(kDegree, place, first, codes[first]));
    const auto want = static_cast<std::uint64_t>(std::ranges::lower_bound(codes, place.past) - codes.begin());
    found += bracket.begin <= want && want <= bracket.end;
  }
  EXPECT_GE(found, kRows * 2 / 3);
}

// A worker tells its trainer of a batch that memory was too short for, and makes the next with the same
// table.
TEST(RelabelTable, ABatchAfterAShortageOfMemory_HasItsLocalIds) {
  if (!testing::kLimitsAddresses) GTEST_SKIP() << "a limit of addresses is none under a sanitizer";
  constexpr std::size_t kTooMany = 1 << 21;  // their entries: 64 MB
  HashRelabel relabel(std::int64_t{1} << 40);
  LocalNodes nodes;
  nodes.reserve(kTooMany);
  relabel.begin_batch(nodes);
  {
    const testing::AddressLimit tight(std::size_t{16} << 20);
    EXPECT_THROW(relabel.make_room(nodes, kTooMany), std::bad_alloc);
  }
  relabel.begin_batch(nodes);
  constexpr std::uint64_t kNodes = 100'000, kFar = 0x9E37'79B9'7F4A'7C15u >> 24;
  std::vector<std::uint32_t> locals(2 * kNodes);
  relabel.make_room(nodes, 2 * kNodes);
  HashRelabel::Inserter inserter(relabel, nodes, locals.data());
  for (std::uint64_t i = 0; i < 2 * kNodes; ++i) inserter.insert(i % kNodes * kFar, i);
  inserter.close();
  ASSERT_EQ(nodes.count, kNodes);
  for (std::uint64_t i = 0; i < 2 * kNodes; ++i) ASSERT_EQ(locals[i], i % kNodes);
}

}  // namespace
}  // namespace hopfeed
