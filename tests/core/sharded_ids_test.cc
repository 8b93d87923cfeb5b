// Sharded ids: machines that have some partitions, and ids of their ranges alone, make the bytes of one that
// has all; what they ask for it is counted; and what cannot be known is refused in one line.
// partitions_oracle_test.cc has every kind of sampling over random graphs.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/base/notes.h"
#include "core/dataset/id_ranges.h"
#include "core/maker/batch_source.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/split_by_partition.h"
#include "tests/core/all_kinds.h"
#include "tests/support/dataset_files.h"
#include "tests/support/machines.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

/// Users and items with times, labels and splits of nodes and of links.
testing::TypedGraph shop() {
  std::mt19937_64 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  testing::TypedGraph graph{.nodes = {{.name = "user", .count = 211}, {.name = "item", .count = 157}},
                            .edges = {{.src = "user", .rel = "buys", .dst = "item"},
                                      {.src = "item", .rel = "rev_buys", .dst = "user"},
                                      {.src = "user", .rel = "knows", .dst = "user"}}};
  for (testing::TypedNodes& nodes : graph.nodes) {
    nodes.x_width = 3;
    for (std::int64_t v = 0; v < nodes.count; ++v) {
      nodes.time.push_back(below(40));
      nodes.y.push_back(below(5));
      for (int k = 0; k < 3; ++k) nodes.x.push_back(static_cast<float>(100 * v + k));
      if (below(3) > 0) nodes.splits["train"].push_back(v);
    }
    nodes.num_classes = 5;
    std::ranges::shuffle(nodes.splits["train"], random);
    nodes.splits["valid"] = {3, 1, 2};
  }
  for (testing::TypedEdges& edges : graph.edges) {
    for (int e = 0; e < 2'500; ++e) {
      edges.sources.push_back(below(graph.nodes[static_cast<std::size_t>(graph.node_type(edges.src))].count));
      edges.destinations.push_back(
          below(graph.nodes[static_cast<std::size_t>(graph.node_type(edges.dst))].count));
      edges.weight.push_back(1 + static_cast<double>(e % 7));
    }
  }
  testing::TypedLinks train, plain;
  for (int l = 0; l < 300; ++l) {
    for (testing::TypedLinks* links : {&train, &plain})
      links->pairs.insert(links->pairs.end(), {below(211), below(157)});
    train.labels.push_back(1 + below(3));
    train.times.push_back(below(40));
  }
  graph.edges[0].splits = {{"train", train}, {"plain", plain}};
  graph.edges[1].rev_of = graph.edges[0].src + "__buys__item";
  return graph;
}

class ShardedIds : public ::testing::Test {
 protected:
  /// The graph twice, of one cut: with ids of all nodes everywhere, and with sharded ones.
  void cut(int partitions, bool halos = false) {
    testing::TypedCut cut = testing::random_typed_cut(graph_, partitions, 7);
    cut.halos = halos;
    cut.by_id = true;
    testing::write_typed_dataset(replicated_, graph_, cut);
    cut.sharded_ids = true;
    testing::write_typed_dataset(sharded_, graph_, cut);
  }
  static std::unique_ptr<BatchSource> nodes(const Dataset& dataset, const NodeInput& input, int type = 0) {
    return std::make_unique<BatchSource>(std::make_unique<NodeSet>(dataset, type, input),
                                         NodeSet::ListOptions{.node_type = type, .shuffle = true});
  }
  static std::unique_ptr<BatchSource> links(const Dataset& dataset, const LinkInput& input) {
    return std::make_unique<BatchSource>(std::make_unique<LinkSet>(dataset, 0, input),
                                         LinkSet::ListOptions{.edge_type = 0, .shuffle = true});
  }
  static std::vector<std::uint64_t> digests(const Dataset& dataset, const BatchSource& source,
                                            const BatchOptions& options) {
    BatchMaker maker = source.maker(dataset, options);
    std::vector<std::uint64_t> all;
    for (std::int64_t first = 0; first < source.size(); first += 37)
      all.push_back(testing::make_block(maker, {.seed = 2,
                                                .epoch = 1,
                                                .first = first,
                                                .count = std::min<std::int64_t>(37, source.size() - first)})
                        .view()
                        .digest());
    return all;
  }
  /// What an action says when it is refused.
  template <class Action>
  static std::string refusal(ErrorCode code, Action action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.message();
    }
    return "it was not refused";
  }

  const testing::TypedGraph graph_ = shop();
  testing::TempFolder temp_;
  const fs::path replicated_ = temp_.path() / "replicated", sharded_ = temp_.path() / "sharded";
};

TEST_F(ShardedIds, ADatasetThatIsWholeTellsTheSame) {
  for (const int partitions : {2, 4, 5}) {
    cut(partitions);
    const Dataset is(sharded_), was(replicated_);
    EXPECT_EQ(is.meta().version(), kShardedIdsDatasetVersion);
    EXPECT_EQ(is.meta().fingerprint, was.meta().fingerprint);
    for (int t = 0; t < 2; ++t) {
      for (std::int64_t v = 0; v < is.num_nodes(t); ++v) {
        EXPECT_EQ(is.dataset_id(t, v), was.dataset_id(t, v));
        EXPECT_EQ(is.original_id(t, v), was.original_id(t, v));
      }
      for (const char* split : {"train", "valid"})
        EXPECT_TRUE(std::ranges::equal(is.split(t, split), was.split(t, split))) << split;
    }
    for (const char* split : {"train", "plain"}) {
      const LinkSplit one = is.edge_split(0, split), other = was.edge_split(0, split);
      EXPECT_TRUE(std::ranges::equal(one.pairs, other.pairs) &&
                  std::ranges::equal(one.labels, other.labels) && std::ranges::equal(one.times, other.times));
    }
    for (const NodeTypeMeta& node : is.meta().node_types) {
      EXPECT_FALSE(fs::exists(sharded_ / new_ids_path(node)));
      EXPECT_FALSE(fs::exists(sharded_ / all_original_ids_path(node)));
    }
  }
}

TEST_F(ShardedIds, SeedsOfASplitAreTheBatchesOfOneMachine) {
  for (const int partitions : {1, 2, 4, 5}) {
    cut(partitions, partitions == 4);
    const Dataset whole(replicated_);
    for (const int count : {1, 2, 4}) {
      const testing::Machines machines(sharded_, count);
      for (int type = 0; type < 2; ++type) {
        for (const BatchOptions& options : {BatchOptions{.fanouts = {4, 3}, .edge_ids = true},
                                            BatchOptions{.fanouts = {3, 3}, .disjoint = true},
                                            BatchOptions{.fanouts = {3, 2}, .labor = true},
                                            BatchOptions{.fanouts = {3, 3}, .weight = "weight"},
                                            BatchOptions{.fanouts = {3, 3}, .time = "time"}}) {
          SCOPED_TRACE(options.to_json() + ", machines " + std::to_string(machines.size()));
          const auto expected = digests(whole, *nodes(whole, {}, type), options);
          for (std::size_t m = 0; m < machines.size(); ++m) {
            const Dataset& dataset = machines.dataset(m);
            EXPECT_EQ(digests(dataset, *nodes(dataset, {}, type), options), expected);
            EXPECT_EQ(machines.peers(m).left(), 0U) << "answers that nobody took";
          }
        }
      }
    }
  }
}

TEST_F(ShardedIds, LinksOfASplitAreTheBatchesOfOneMachine) {
  for (const int partitions : {2, 4}) {
    cut(partitions, partitions == 4);
    const Dataset whole(replicated_);
    const testing::Machines machines(sharded_, partitions);
    for (const char* split : {"train", "plain"}) {
      for (const NegativeMode mode : {NegativeMode::kNone, NegativeMode::kBinary, NegativeMode::kTriplet}) {
        const bool labelled = std::string(split) == "train";
        if (labelled && mode == NegativeMode::kTriplet) continue;
        for (const bool strict : {false, true}) {
          BatchOptions options{.fanouts = {3, 2}, .link = {.edge_type = "user__buys__item"}};
          if (mode == NegativeMode::kNone && strict) continue;
          options.link.negatives.mode = mode;
          if (mode != NegativeMode::kNone)
            options.link.negatives.amount = 2, options.link.negatives.strict = strict;
          options.link.exclude = Exclude::kReverse;
          if (labelled) options.time = "time", options.link.exclude = Exclude::kNone;
          SCOPED_TRACE(options.to_json() + ", split " + split);
          const auto expected = digests(whole, *links(whole, {.split = split}), options);
          const Dataset& dataset = machines.dataset(1);
          EXPECT_EQ(digests(dataset, *links(dataset, {.split = split}), options), expected);
        }
      }
    }
  }
}

TEST_F(ShardedIds, WhatIsGivenBesideASplitIsItsOwn) {
  cut(3);
  const Dataset whole(replicated_);
  const testing::Machines machines(sharded_, 3);
  const Dataset& dataset = machines.dataset(2);
  const auto seeds = static_cast<std::size_t>(whole.split(0, "train").size());
  NodeInput weighted;
  for (std::size_t i = 0; i < seeds; ++i) weighted.weights.push_back(1 + static_cast<double>(i % 5));
  EXPECT_EQ(digests(dataset, *nodes(dataset, weighted), {.fanouts = {3}}),
            digests(whole, *nodes(whole, weighted), {.fanouts = {3}}));
  EXPECT_EQ(nodes(dataset, weighted)->pack(), nodes(whole, weighted)->pack()) << "what workers are told";
  LinkInput labelled{.split = "plain", .labels = Ints(300, 2)};
  const BatchOptions options{.fanouts = {3}, .link = {.edge_type = "user__buys__item"}};
  EXPECT_EQ(digests(dataset, *links(dataset, labelled), options),
            digests(whole, *links(whole, labelled), options));
  EXPECT_EQ(links(dataset, labelled)->pack(), links(whole, labelled)->pack());
}

TEST_F(ShardedIds, WhatIsAskedIsCounted) {
  cut(2);
  const auto asked = [](const fs::path& folder, const BatchOptions& options, std::int64_t& rows) {
    const testing::Machines machines(folder, 2);
    const Ints seeds = [] {
      Ints ids(100);
      std::iota(ids.begin(), ids.end(), 50);
      return ids;
    }();
    const NodeList list(seeds, {.node_type = 0, .shuffle = false});
    BatchMaker maker(machines.dataset(0), list, options);
    const auto block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 100});
    rows = 0;
    const Dataset whole(folder);
    for (int t = 0; t < 2; ++t) {
      for (const std::int64_t v : block.view().get("n_id", Store::kNode, t).as<std::int64_t>()) {
        std::int64_t known = 0;
        const std::int64_t id = whole.dataset_id(t, v);
        machines.dataset(0).find_original_ids(t, {&id, 1}, &known);
        rows += known < 0;
      }
    }
    return std::pair(machines.peers(0).questions(), static_cast<std::int64_t>(machines.peers(0).bytes()));
  };
  std::int64_t none = 0, rows = 0;
  const BatchOptions options{.fanouts = {4, 4}};
  const auto [questions, bytes] = asked(replicated_, options, none);
  const auto [more_questions, more_bytes] = asked(sharded_, options, rows);
  EXPECT_EQ(none, 0);
  EXPECT_LE(more_questions - questions, 1 + 2) << "one round for seeds, and ids of each node type";
  EXPECT_LE(static_cast<double>(more_bytes),
            1.05 * static_cast<double>(bytes + 8 * rows + 12 * 100 + 64 * 2 * more_questions));
}

TEST_F(ShardedIds, WhatNeedsAllNodesSaysWhatItKeeps) {
  cut(2);
  const Dataset whole(replicated_);
  BatchOptions options{.fanouts = {3}, .link = {.edge_type = "user__buys__item"}};
  options.link.negatives.mode = NegativeMode::kTriplet;
  options.link.negatives.dst_weight = "time";
  std::vector<std::string> notes;
  take_notes([&](const std::string& line) { notes.push_back(line); });
  for (const int partitions : {2, 3}) {
    cut(partitions);
    const testing::Machines machines(sharded_, partitions);
    const Dataset& dataset = machines.dataset(1);
    EXPECT_EQ(digests(dataset, *links(dataset, {.split = "plain"}), options),
              digests(whole, *links(whole, {.split = "plain"}), options));
  }
  take_notes({});
  ASSERT_EQ(notes.size(), 1U) << "once, though two machines keep it";
  EXPECT_NE(notes[0].find("attribute 'time' of all nodes of type 'item' is kept here, "), std::string::npos)
      << notes[0];
}

TEST_F(ShardedIds, TrainersTakeTheSeedsOfTheirPartition) {
  cut(4);
  const Dataset whole(replicated_);
  const testing::Machines machines(sharded_, 4);
  const auto train = whole.split(0, "train");
  const LinkSplit bought = whole.edge_split(0, "plain");
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const SplitByPartition split{.rank = rank, .world_size = 4};
    EXPECT_EQ(node_split(machines.dataset(1), 0, train, split), node_split(whole, 0, train, split));
    EXPECT_EQ(edge_split(machines.dataset(1), 0, bought.pairs, split),
              edge_split(whole, 0, bought.pairs, split));
  }
}

TEST_F(ShardedIds, AMachineAloneRefusesWhatItCannotKnow) {
  cut(3);
  const Dataset alone(sharded_, {.some_partitions = true, .partitions = {1}});
  const std::string split = refusal(ErrorCode::kUnsupported, [&] { alone.split(0, "train"); });
  EXPECT_NE(split.find("split 'train' as one list reads all partitions"), std::string::npos) << split;
  EXPECT_NE(refusal(ErrorCode::kUnsupported, [&] { alone.edge_split(0, "plain"); }).find("split 'plain'"),
            std::string::npos);
  const IdRanges ranges{.count = 211, .partitions = 3};
  const std::string id = refusal(ErrorCode::kUnsupported, [&] { alone.dataset_id(0, ranges.begin(2)); });
  EXPECT_NE(id.find("original id " + std::to_string(ranges.begin(2)) + " of node type 'user' is not known"),
            std::string::npos)
      << id;
  EXPECT_EQ(alone.dataset_id(0, ranges.begin(1)), Dataset(replicated_).dataset_id(0, ranges.begin(1)));
  // Nobody is named who has the others.
  const std::string nobody =
      refusal(ErrorCode::kUnsupported, [&] { digests(alone, *nodes(alone, {}), {.fanouts = {2}}); });
  EXPECT_NE(nobody.find("partition 0 of " + sharded_.string() + " is not on this machine"), std::string::npos)
      << nobody;
}

// What each machine reads of its own, and what it answers, is looked at: sizes of files say nothing of it.
TEST_F(ShardedIds, DamagedEntriesOfASplitAreNamedByWhoeverHasThem) {
  const BatchOptions binary = [] {
    BatchOptions options{.fanouts = {3}, .link = {.edge_type = "user__buys__item"}};
    options.link.negatives.mode = NegativeMode::kBinary;
    return options;
  }();
  const auto set = [&](const std::string& file, std::int64_t at, std::int64_t number) {
    testing::change_file(sharded_, file,
                         [&](std::byte* first) { std::memcpy(first + 8 * at, &number, sizeof(number)); });
  };
  const Ints damages{-1, 211, 5'000'000'000, INT64_MIN};
  for (const std::int64_t damage : damages) {
    for (const std::int64_t column : {0, 1}) {
      cut(2);
      set("part-0000/splits/user/train.npy", column, damage);
      for (const std::size_t m : {0, 1}) {
        const testing::Machines machines(sharded_, 2);
        const Dataset& dataset = machines.dataset(m);
        const std::string said =
            refusal(ErrorCode::kCorrupt, [&] { digests(dataset, *nodes(dataset, {}), {.fanouts = {3}}); });
        EXPECT_NE(said.find("part-0000/splits/user/train.npy"), std::string::npos) << said;
        EXPECT_NE(said.find(std::to_string(damage)), std::string::npos) << said;
      }
    }
    for (const std::int64_t column : {0, 1, 2, 3}) {
      cut(2);
      set("part-0001/edge_splits/user__buys__item/train/pairs.npy", column, damage);
      for (const std::size_t m : {0, 1}) {
        const testing::Machines machines(sharded_, 2);
        const Dataset& dataset = machines.dataset(m);
        for (const bool strict : {false, true}) {
          BatchOptions options = binary;
          options.link.negatives.strict = strict;
          const std::string said = refusal(
              ErrorCode::kCorrupt, [&] { digests(dataset, *links(dataset, {.split = "train"}), options); });
          EXPECT_NE(said.find("part-0001/edge_splits/user__buys__item/train/pairs.npy"), std::string::npos)
              << said;
        }
      }
    }
  }
  cut(2);
  set("part-0000/edge_splits/user__buys__item/train/labels.npy", 0, -9);
  const testing::Machines machines(sharded_, 2);
  const std::string said = refusal(ErrorCode::kCorrupt, [&] {
    digests(machines.dataset(1), *links(machines.dataset(1), {.split = "train"}), binary);
  });
  EXPECT_NE(said.find("train/labels.npy"), std::string::npos) << said;
}

TEST_F(ShardedIds, ADamagedRowOfOnesOwnIsNamedAtOnce) {
  cut(2);
  const DatasetMeta meta = Dataset(sharded_).meta();
  for (const int into_users : {1, 2})
    testing::change_file(sharded_, rows_path(0, meta.edge_types[static_cast<std::size_t>(into_users)]),
                         [](std::byte* first) { reinterpret_cast<RowRecord*>(first)[3].original_id = -1; });
  const testing::Machines machines(sharded_, 2);
  const Dataset& dataset = machines.dataset(0);
  const std::string said = refusal(ErrorCode::kCorrupt, [&] {
    digests(dataset, *nodes(dataset, {}), {.fanouts = {-1, -1}});
  });
  EXPECT_NE(said.find("row 3 has original id -1"), std::string::npos) << said;
}

TEST_F(ShardedIds, AnIdBeyondTheGraphIsNamed) {
  cut(2);
  const testing::Machines machines(sharded_, 2);
  const Ints seeds{3, 211};
  const NodeList list(seeds, {.node_type = 0, .shuffle = false});
  BatchMaker maker(machines.dataset(0), list, {.fanouts = {2}});
  const std::string said = refusal(ErrorCode::kInvalid, [&] {
    testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 2});
  });
  EXPECT_NE(said.find("node 211 is out of range: node type 'user'"), std::string::npos) << said;
  EXPECT_EQ(machines.peers(0).left(), 0U);
}

TEST_F(ShardedIds, AnOwnerIsAskedForNoIdsThatAllHave) {
  cut(2);
  const Dataset whole(replicated_);
  PartitionOwner owner(whole);
  const std::uint32_t place = 0;
  const auto question = write_question({.ask = PeerAsk::kNewIds, .partition = 0, .job = 0},
                                       PeerIdsHead{.node_type = 0, .ids = 1}, std::span(&place, 1));
  EXPECT_NE(refusal(ErrorCode::kCorrupt, [&] { owner.answer(question); }).find("which every machine has"),
            std::string::npos);
}

TEST_F(ShardedIds, QuestionsThatCannotBeAreRefused) {
  cut(2);
  const Dataset dataset(sharded_);
  PartitionOwner owner(dataset);
  const auto ask = [&](PeerAsk kind, const auto& head, std::uint32_t place) {
    return refusal(ErrorCode::kCorrupt, [&] {
      owner.answer(write_question({.ask = kind, .partition = 1, .job = 0}, head,
                                  std::span<const std::uint32_t>(&place, 1)));
    });
  };
  const IdRanges ranges{.count = 211, .partitions = 2};
  EXPECT_NE(ask(PeerAsk::kNewIds, PeerIdsHead{.node_type = 2, .ids = 1}, 0).find("node type 2"),
            std::string::npos);
  EXPECT_NE(ask(PeerAsk::kOldIds, PeerIdsHead{.node_type = 7, .ids = 1}, 0).find("node type 7"),
            std::string::npos);
  const auto beyond = static_cast<std::uint32_t>(ranges.size(1));
  EXPECT_NE(ask(PeerAsk::kNewIds, PeerIdsHead{.node_type = 0, .ids = 1}, beyond)
                .find("row " + std::to_string(beyond)),
            std::string::npos);
  EXPECT_NE(ask(PeerAsk::kOldIds, PeerIdsHead{.node_type = 0, .ids = 1}, 10'000).find("row 10000"),
            std::string::npos);
  EXPECT_NE(
      ask(PeerAsk::kSplit, PeerSplitHead{.is_edge = 2, .type = 0, .split = 0, .places = 1}, 0).find("type 0"),
      std::string::npos);
  EXPECT_NE(
      ask(PeerAsk::kSplit, PeerSplitHead{.is_edge = 1, .type = 3, .split = 0, .places = 1}, 0).find("type 3"),
      std::string::npos);
  EXPECT_NE(ask(PeerAsk::kSplit, PeerSplitHead{.is_edge = 0, .type = 0, .split = 2, .places = 1}, 0)
                .find("split 2"),
            std::string::npos);
  EXPECT_NE(ask(PeerAsk::kSplit, PeerSplitHead{.is_edge = 0, .type = 0, .split = 0, .places = 1}, 9'999)
                .find("row 9999"),
            std::string::npos);
  EXPECT_NE(ask(PeerAsk::kNewIds, PeerIdsHead{.node_type = 0, .ids = 9}, 0).find("it ends early"),
            std::string::npos);
}

TEST(IdRanges, EachNumberIsInOne) {
  for (const std::int64_t count : {0, 1, 7, 100, 101}) {
    for (const int partitions : {1, 2, 3, 7, 64}) {
      const IdRanges ranges{.count = count, .partitions = partitions};
      EXPECT_EQ(ranges.begin(0), 0);
      EXPECT_EQ(ranges.begin(partitions), count);
      for (std::int64_t i = 0; i < count; ++i) {
        const int p = ranges.owner(i);
        ASSERT_TRUE(p >= 0 && p < partitions && i >= ranges.begin(p) && i < ranges.begin(p + 1)) << i;
      }
    }
  }
  const IdRanges large{.count = std::int64_t{1} << 47, .partitions = 4'096};
  for (const std::int64_t i : {std::int64_t{0}, large.begin(17) - 1, large.begin(17), large.count - 1}) {
    const int p = large.owner(i);
    EXPECT_TRUE(i >= large.begin(p) && i < large.begin(p + 1)) << i;
  }
}

}  // namespace
}  // namespace hopfeed
