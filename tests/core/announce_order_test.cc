// Batches that are sampled on several threads announce in their own order, and whatever becomes of one, those
// behind it go on.
#include "core/maker/announce_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/maker/partitioned_features.h"
#include "tests/support/machines.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::uint64_t>;

class Log {
 public:
  void add(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_.push_back(number);
  }
  Numbers numbers() const {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  mutable std::mutex mutex_;
  Numbers numbers_;
};

class AnnounceOrderTest : public testing::WatchedTest<60> {
 protected:
  std::vector<std::unique_ptr<AnnounceTurn>> turns(std::size_t count) {
    std::vector<std::unique_ptr<AnnounceTurn>> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(std::make_unique<AnnounceTurn>(order_));
    return made;
  }
  /// A thread that announces in this turn.
  std::thread announcing(AnnounceTurn& turn, std::uint64_t number) {
    return std::thread([this, &turn, number] {
      turn.await();
      log_.add(number);
      turn.leave();
    });
  }
  AnnounceOrder order_;
  Log log_;
};

TEST_F(AnnounceOrderTest, ThreadsThatComeInAnyOrder_AnnounceInThatOfTheirBatches) {
  constexpr std::size_t kMakers = 17, kBatches = 200;
  auto turns = this->turns(kMakers);
  Numbers expected;
  std::mt19937 random(3);
  for (std::size_t first = 0; first < kBatches; first += kMakers) {
    std::vector<std::size_t> ends(kMakers);  // in which their sampling ends
    for (std::size_t i = 0; i < kMakers; ++i) {
      turns[i]->join(first + i);
      expected.push_back(first + i);
      ends[i] = i;
    }
    std::ranges::shuffle(ends, random);
    std::vector<std::thread> threads;
    for (const std::size_t i : ends) threads.push_back(announcing(*turns[i], first + i));
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(log_.numbers(), expected);
}

TEST_F(AnnounceOrderTest, ABatchThatEndsWithoutAnnouncing_PassesItsTurnOn) {
  auto turns = this->turns(4);
  for (std::uint64_t i = 0; i < 4; ++i) turns[i]->join(i);
  std::thread third = announcing(*turns[2], 2), last = announcing(*turns[3], 3);
  turns[0]->leave();  // an error
  turns[1].reset();   // its maker is gone
  third.join();
  last.join();
  EXPECT_EQ(log_.numbers(), (Numbers{2, 3}));
}

TEST_F(AnnounceOrderTest, AMakersNextBatch_TakesThePlaceOfOneThatNeverLeft) {
  auto turns = this->turns(2);
  turns[0]->join(0);
  turns[1]->join(1);
  turns[0]->join(2);
  turns[1]->await();
  turns[1]->leave();
  turns[0]->await();
  turns[0]->leave();
}

// A dead worker's batch comes again, below those that were begun since.
TEST_F(AnnounceOrderTest, ABatchThatComesAgain_IsNextInItsOwnPlace) {
  auto turns = this->turns(3);
  turns[0]->join(5);
  turns[1]->join(6);
  std::thread sixth = announcing(*turns[1], 6);
  turns[2]->join(2);
  std::thread second = announcing(*turns[2], 2);
  second.join();
  announcing(*turns[0], 5).join();
  sixth.join();
  EXPECT_EQ(log_.numbers(), (Numbers{2, 5, 6}));
}

TEST_F(AnnounceOrderTest, BehindABatchThatHangs_OneGoesOnAfterTheLongestTurn) {
  auto turns = this->turns(2);
  turns[0]->join(0);
  turns[1]->join(1);
  const auto begin = std::chrono::steady_clock::now();
  turns[1]->await();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kLongestTurn - 10ms);
}

TEST_F(AnnounceOrderTest, WhoHasNotJoined_WaitsForNobody) {
  auto turns = this->turns(2);
  turns[0]->join(0);
  turns[1]->await();
  turns[1]->leave();
}

/// A cache that has every row.
class LoggedRows final : public CachedRows {
 public:
  LoggedRows(Log& log, std::uint64_t number) : log_(log), number_(number) {}
  void announce(std::span<const std::int64_t>) override { log_.add(number_); }
  std::span<const std::size_t> absent() const override { return {}; }
  std::span<const Hit> take() override { return {}; }
  void keep(const std::function<const std::byte*(std::size_t i)>&) override {}
  void drop() override {}

 private:
  Log& log_;
  const std::uint64_t number_;
};

TEST_F(AnnounceOrderTest, FeaturesOfOtherPartitions_AreAnnouncedInTurn) {
  const testing::TempFolder folder;
  const testing::TinyGraph graph = testing::random_graph({});
  testing::write_tiny_dataset(folder.path() / "d", graph, testing::random_cut(graph, 2, 1));
  const testing::Machines machines(folder.path() / "d", 2);
  const Dataset& dataset = machines.dataset(0);
  constexpr std::size_t kMakers = 6;
  auto turns = this->turns(kMakers);
  std::vector<std::unique_ptr<PartitionedFeatures>> sources;
  for (std::size_t i = 0; i < kMakers; ++i) {
    sources.push_back(std::make_unique<PartitionedFeatures>(
        dataset, FeatureName{.store = Store::kNode, .type = 0, .name = "x"},
        std::make_unique<LoggedRows>(log_, i), turns[i].get()));
    turns[i]->join(i);
  }
  const std::vector<std::int64_t> ids{0, 50, 199};
  std::vector<std::thread> threads;
  for (std::size_t i = kMakers; i-- > 0;)
    threads.emplace_back([&, i] {
      EXPECT_EQ(sources[i]->prepare(ids), ids.size());
      turns[i]->leave();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log_.numbers(), (Numbers{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace hopfeed
