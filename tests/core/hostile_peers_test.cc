// Damaged and hostile bytes between machines that have partitions: whatever an owner is asked it answers or
// throws Error, and whatever a machine is answered it makes a batch or throws Error. Both go on afterwards.
// HOPFEED_SEED: another seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/core/random_links.h"
#include "tests/support/machines.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

std::uint64_t test_seed() {
  const char* given = std::getenv("HOPFEED_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
}

/// Turns bits over, puts numbers that matter, cuts and lengthens.
class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  PeerBytes of(PeerBytes bytes) {
    for (std::uint64_t times = 1 + below(3); times > 0; --times) once(bytes);
    return bytes;
  }

 private:
  template <class Number>
  void put(PeerBytes& bytes) {
    static constexpr std::uint64_t kNumbers[] = {
        0,          1,          2,           0x7F,           0xFF,       0xFFFF,    0x7FFFFFFF,
        0x80000000, 0xFFFFFFFF, 0x100000000, INT64_MAX - 17, 1ull << 63, ~0ull - 2, ~0ull};
    if (bytes.size() < sizeof(Number)) return;
    const std::size_t at = below(bytes.size() / sizeof(Number)) * sizeof(Number);
    const auto number = static_cast<Number>(kNumbers[below(std::size(kNumbers))]);
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
  void once(PeerBytes& bytes) {
    switch (below(8)) {
      case 0:
        bytes.resize(below(bytes.size() + 1));
        break;
      case 1:
        bytes.resize(bytes.size() + 1 + below(40), static_cast<std::byte>(below(256)));
        break;
      case 2:
        put<std::uint8_t>(bytes);
        break;
      case 3:
        put<std::uint32_t>(bytes);
        break;
      case 4:
        put<std::uint64_t>(bytes);
        break;
      default:
        if (!bytes.empty()) bytes[below(bytes.size())] ^= std::byte{1} << below(8);
    }
  }
  std::mt19937_64 random_;
};

/// Keeps questions, and damages some answers.
class Between final : public PartitionPeers {
 public:
  Between(std::shared_ptr<PartitionPeers> to, std::vector<std::pair<int, PeerBytes>>* questions,
          Damage* damage)
      : to_(std::move(to)), questions_(questions), damage_(damage) {}
  Ticket ask(int partition, PeerBytes question) override {
    if (questions_ != nullptr) questions_->emplace_back(partition, question);
    const Ticket ticket = to_->ask(partition, std::move(question));
    ++open_;
    return ticket;
  }
  PeerAnswer wait(Ticket ticket) override {
    PeerAnswer answer = to_->wait(ticket);
    --open_;
    if (damage_ == nullptr || damage_->below(4) != 0) return answer;
    return std::make_shared<const PeerBytes>(damage_->of(*answer));
  }
  void drop(Ticket ticket) noexcept override {
    to_->drop(ticket);
    --open_;
  }
  /// Questions that nobody has waited for or dropped.
  std::int64_t open() const { return open_; }

 private:
  const std::shared_ptr<PartitionPeers> to_;
  std::vector<std::pair<int, PeerBytes>>* const questions_;
  Damage* const damage_;
  std::int64_t open_ = 0;
};

/// A graph on three machines, of which the first makes batches of every kind.
class HostilePeers : public ::testing::Test {
 protected:
  void SetUp() override { std::printf("HOPFEED_SEED=%llu\n", static_cast<unsigned long long>(test_seed())); }

  struct Cluster {
    std::unique_ptr<Dataset> dataset;  // of the machine that asks
    std::vector<std::unique_ptr<Dataset>> datasets;
    std::vector<std::unique_ptr<PartitionOwner>> owners;  // by partition
    std::shared_ptr<PartitionPeers> direct;
  };
  Cluster cluster(const std::filesystem::path& path) {
    Cluster made;
    made.dataset =
        std::make_unique<Dataset>(path, DatasetOptions{.some_partitions = true, .partitions = {0}});
    std::vector<PartitionOwner*> owner_of;
    for (int p = 0; p < made.dataset->meta().partitions; ++p) {
      made.datasets.push_back(
          std::make_unique<Dataset>(path, DatasetOptions{.some_partitions = true, .partitions = {p}}));
      made.owners.push_back(std::make_unique<PartitionOwner>(*made.datasets.back()));
      owner_of.push_back(made.owners.back().get());
    }
    made.direct = std::make_shared<testing::OwnersHere>(owner_of);
    made.dataset->set_peers(made.direct);
    return made;
  }
  std::filesystem::path write(const testing::TypedGraph& graph, testing::Rounds& rounds) {
    testing::TypedCut cut = testing::random_typed_cut(graph, 3, rounds.word());
    cut.wide_ids = rounds.below(2) == 1;
    cut.by_id = rounds.below(2) == 1;
    cut.sharded_ids = rounds.below(2) == 1;
    const auto path = folder_.path() / std::to_string(number_++);
    testing::write_typed_dataset(path, graph, cut);
    return path;
  }
  testing::TypedGraph graph_of(testing::Rounds& rounds) {
    return testing::random_typed_graph({.node_types = 1 + rounds.below(2),
                                        .edge_types = 1 + rounds.below(3),
                                        .max_nodes = 30 + rounds.below(120),
                                        .seed = rounds.word(),
                                        .reverses = rounds.below(2) == 1});
  }
  /// Makes a batch of any kind; what goes wrong is thrown.
  void make_nodes(const Dataset& dataset, const testing::TypedGraph& graph, testing::Rounds& rounds,
                  const std::function<void(BatchMaker&, const BatchKey&)>& make) {
    int type = static_cast<int>(rounds.below(std::ssize(graph.nodes)));
    const BatchOptions options = rounds.options(graph, type);
    if (options.sampler == BatchOptions::kClusterSampler) type = 0;
    Ints seeds;
    for (std::int64_t count = 1 + rounds.below(20); count > 0; --count)
      seeds.push_back(rounds.below(graph.nodes[type].count));
    const NodeList list(seeds, {.node_type = type, .shuffle = false});
    const BatchKey key = rounds.key(list.size());
    BatchMaker maker(dataset, list, options);
    make(maker, key);
  }
  void make_links(const Dataset& dataset, const testing::TypedGraph& graph, testing::LinkRounds& rounds,
                  const std::function<void(BatchMaker&, const BatchKey&)>& make) {
    testing::SerialLinks links = rounds.links(graph);
    const BatchOptions options = rounds.options(graph, links);
    if (!testing::makes_sense(graph, links, options)) return;
    const Ints pairs = testing::pairs_of(links);
    const LinkList list(
        pairs,
        {.edge_type = links.edge_type, .shuffle = false, .labels = links.labels, .times = links.times});
    const BatchKey key = rounds.key(list.size());
    BatchMaker maker(dataset, list, options);
    make(maker, key);
  }

  testing::TempFolder folder_;
  int number_ = 0;
};

PeerAsk kind_of(const PeerBytes& question) {
  PeerAsk ask{};
  std::memcpy(&ask, question.data(), sizeof ask);
  return ask;
}

TEST_F(HostilePeers, DamagedQuestions_AreAnsweredOrRefused) {
  testing::LinkRounds rounds(41);
  Damage damage(test_seed());
  std::map<PeerAsk, int> asked, refused;
  for (int round = 0; round < 24; ++round) {
    const bool links = round % 2 == 1;
    const testing::TypedGraph graph = links ? rounds.graph() : graph_of(rounds);
    const Cluster machines = cluster(write(graph, rounds));
    std::vector<std::pair<int, PeerBytes>> questions;
    machines.dataset->set_peers(std::make_shared<Between>(machines.direct, &questions, nullptr));
    const auto make = [](BatchMaker& maker, const BatchKey& key) { testing::make_block(maker, key); };
    for (int batch = 0; batch < 4; ++batch) {
      try {
        if (links)
          make_links(*machines.dataset, graph, rounds, make);
        else
          make_nodes(*machines.dataset, graph, rounds, make);
      } catch (const Error&) {  // a strict negative that is not found
      }
    }
    if (questions.empty()) continue;
    for (int mutation = 0; mutation < 400; ++mutation) {
      const auto& [partition, question] = questions[damage.below(questions.size())];
      const PeerAsk kind = kind_of(question);
      ++asked[kind];
      PartitionOwner& owner = *machines.owners[static_cast<std::size_t>(partition)];
      try {
        EXPECT_LE(owner.answer(damage.of(question)).size(), kMaxPeerAnswer);
      } catch (const Error&) {
        ++refused[kind];
      }
    }
    // Undamaged ones are answered as ever.
    for (const auto& [partition, question] : questions)
      EXPECT_NO_THROW(machines.owners[static_cast<std::size_t>(partition)]->answer(question));
  }
  for (const PeerAsk kind :
       {PeerAsk::kJob, PeerAsk::kDraw, PeerAsk::kRows, PeerAsk::kEdges, PeerAsk::kFeatures}) {
    EXPECT_GT(asked[kind], 50) << static_cast<int>(kind);
    EXPECT_GT(refused[kind], 10) << static_cast<int>(kind);
  }
}

TEST_F(HostilePeers, DamagedAnswers_AreErrorsAndTheNextBatchIsRight) {
  testing::LinkRounds rounds(42);
  Damage damage(test_seed() + 1);
  int made = 0, failed = 0;
  for (int round = 0; round < 24; ++round) {
    const bool links = round % 2 == 1;
    const testing::TypedGraph graph = links ? rounds.graph() : graph_of(rounds);
    const Cluster machines = cluster(write(graph, rounds));
    for (int batch = 0; batch < 6; ++batch) {
      const auto hostile = std::make_shared<Between>(machines.direct, nullptr, &damage);
      const auto make = [&](BatchMaker& maker, const BatchKey& key) {
        for (int times = 0; times < 12; ++times) {
          try {
            machines.dataset->set_peers(hostile);
            testing::make_block(maker, key);
            ++made;
          } catch (const Error&) {
            ++failed;
            maker.drop();
          }
          EXPECT_EQ(hostile->open(), 0) << "answers that nobody took";
        }
      };
      try {
        machines.dataset->set_peers(machines.direct);
        if (links)
          make_links(*machines.dataset, graph, rounds, make);
        else
          make_nodes(*machines.dataset, graph, rounds, make);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();  // an undamaged setup
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(made, 100);
  EXPECT_GT(failed, 500);
}

/// A dense graph in two partitions, of which the owner has the first.
class HostileQuestions : public ::testing::Test {
 protected:
  HostileQuestions() {
    const testing::TinyGraph graph = testing::random_graph(
        {.num_nodes = 50, .num_edges = 5'000, .x_width = 8, .num_train = 20, .seed = 3});
    testing::write_tiny_dataset(folder_.path() / "graph", graph, testing::random_cut(graph, 2, 5));
    dataset_ = std::make_unique<Dataset>(folder_.path() / "graph",
                                         DatasetOptions{.some_partitions = true, .partitions = {0}});
    owner_ = std::make_unique<PartitionOwner>(*dataset_);
    options_.fanouts = {-1};
    owner_->answer(write_job(0, options_.hash(), options_.to_json()));
  }
  ErrorCode error_of(const PeerBytes& question) {
    try {
      owner_->answer(question);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "it is answered";
    return ErrorCode::kInvalid;
  }
  PeerBytes draw(const PeerDrawQuestion& question) const {
    return write_draw({.ask = PeerAsk::kDraw, .partition = 0, .job = options_.hash()}, question);
  }

  testing::TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<PartitionOwner> owner_;
  BatchOptions options_;
};

TEST_F(HostileQuestions, OneRowAgainAndAgain_IsTooLargeBeforeItIsMade) {
  const std::vector<std::uint32_t> rows(kMaxPeerAnswer / 16, 0);
  EXPECT_EQ(error_of(draw({.sections = {{.edge_type = 0, .rows = rows}}})), ErrorCode::kNoSpace);
  EXPECT_EQ(error_of(write_question({.ask = PeerAsk::kRows},
                                    PeerRowsHead{.rows = static_cast<std::uint32_t>(rows.size())},
                                    std::span<const std::uint32_t>(rows))),
            ErrorCode::kNoSpace);
  EXPECT_EQ(error_of(write_question({.ask = PeerAsk::kFeatures},
                                    PeerFeaturesHead{.rows = static_cast<std::uint32_t>(rows.size())},
                                    std::span<const std::uint32_t>(rows))),
            ErrorCode::kNoSpace);
}

TEST_F(HostileQuestions, TimesOfLateTrees_TakeNoMemoryForThoseBefore) {
  const Ints times{5};
  const std::vector<std::uint32_t> rows{0};
  EXPECT_FALSE(
      owner_->answer(draw({.first_tree = UINT32_MAX, .times = times, .sections = {{.rows = rows}}})).empty());
}

TEST_F(HostileQuestions, ExcludedPairsThatCannotBe_AreRefused) {
  const std::vector<std::uint32_t> rows{0};
  for (const Ints& pair : {Ints{-1, 0}, Ints{INT64_MAX, 0}, Ints{50, 0}, Ints{0, -1}, Ints{0, 50}})
    EXPECT_EQ(error_of(draw({.sections = {{.rows = rows, .excluded = pair}}})), ErrorCode::kCorrupt)
        << pair[0] << ", " << pair[1];
}

TEST_F(HostileQuestions, OptionsThatAreNestedWithoutEnd_AreRefused) {
  std::string deep = R"({"fanouts":)" + std::string(500'000, '[');
  EXPECT_EQ(error_of(write_job(0, 1, deep)), ErrorCode::kCorrupt);
  deep += std::string(500'000, ']') + "}";
  EXPECT_EQ(error_of(write_job(0, 1, deep)), ErrorCode::kCorrupt);
  EXPECT_EQ(error_of(write_job(0, 1, std::string(kMaxOpenBytes + 1, ' '))), ErrorCode::kCorrupt);
}

TEST_F(HostileQuestions, SameOptionsSpelledOtherwise_LockNobodyOut) {
  BatchOptions options;
  options.fanouts = {3};
  owner_->answer(write_job(0, options.hash(), options.to_json() + "  "));
  EXPECT_NO_THROW(owner_->answer(write_job(0, options.hash(), options.to_json())));
}

TEST(HostileAnswers, CountsThatWrapAround_AreRefused) {
  PeerBytes bytes;
  PeerWriter out(bytes);
  out.record(PeerDrawnSection{.edges = 4, .count_bytes = 8, .source_bytes = 4, .rows = 2});
  const Ints counts{-1'000'000, 1'000'004};  // together 4
  out.array(std::span<const std::int64_t>(counts));
  const std::vector<std::uint32_t> sources(4);
  out.array(std::span<const std::uint32_t>(sources));
  PeerReader in(bytes, "an answer");
  EXPECT_THROW(read_drawn(in, 2), Error);
}

}  // namespace
}  // namespace hopfeed
