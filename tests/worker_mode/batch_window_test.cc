// Batches that a worker samples on several threads: their rows are announced in the order of the batches, and
// whatever becomes of one batch, the others are announced, written and published.
#include "worker_mode/batch_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "channel/channel_view.h"
#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "core/base/error.h"
#include "core/maker/announce_order.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kWindow = 7;
constexpr std::uint32_t kSlots = 10;
constexpr std::size_t kBytes = 64;

/// What batches do while they are sampled, and which have announced.
struct Sampling {
  std::function<void(std::uint64_t batch)> before_turn = [](std::uint64_t) {};
  std::mutex mutex;
  std::vector<std::uint64_t> announced;
};

/// Blocks that hold the number of the batch.
class NumberMaker final : public BlockMaker {
 public:
  NumberMaker(Sampling& sampling, AnnounceTurn& turn) : sampling_(sampling), turn_(turn) {}
  void bound_scratch(std::shared_ptr<ScratchBudget>) override {}
  std::size_t sample(const BatchKey& key, HeldShare) override {
    number_ = static_cast<std::uint64_t>(key.first);
    sampling_.before_turn(number_);
    turn_.await();
    const std::lock_guard lock(sampling_.mutex);
    sampling_.announced.push_back(number_);
    return kBytes;
  }
  void write(std::span<std::byte> block, const std::function<void()>&) override {
    std::ranges::fill(block, static_cast<std::byte>(number_));
  }
  void drop() override {}
  TierCounts tier_counts() const override { return {}; }

 private:
  Sampling& sampling_;
  AnnounceTurn& turn_;
  std::uint64_t number_ = 0;
};

class BatchWindowTest : public testing::WatchedTest<60> {
 protected:
  struct Bench {
    AnnounceTurn turn;
    NumberMaker maker;
    BatchFiller filler;
    Bench(BatchWindowTest& test)
        : turn(test.order_),
          maker(test.sampling_, turn),
          filler(*test.port_, maker,
                 {.ends_when_broken = true, .samples_in_background = true, .turn = &turn}) {}
  };

  BatchWindowTest() {
    constexpr ChannelShape kShape{.num_slots = kSlots, .num_workers = 1, .slot_stride = kPageBytes};
    memory_ = make_heap_memory(ChannelView::bytes_needed(kShape));
    view_.emplace(ChannelView::format(*memory_, kShape));
    pool_.emplace(*memory_, *view_,
                  SlotPoolOptions{.channel_size = kSlots * kPageBytes, .allowance = kPageBytes});
    view_->worker(0).incarnation = 1;
    port_.emplace(*view_, 0, -1);
    window_.emplace(*port_, BatchWindowOptions{.filler = [this](const Claim&) { return idle(); },
                                               .ahead = [](const PlannedBatch&) { return kWindow; },
                                               .leaving = [this] { return leaving_.load(); },
                                               .nap = 1ms});
  }
  ~BatchWindowTest() override { stop(); }
  BatchFiller* idle() {
    for (const auto& bench : benches_)
      if (!bench->filler.under_way()) return &bench->filler;
    return &benches_.emplace_back(std::make_unique<Bench>(*this))->filler;
  }
  /// The worker, which makes what is planned.
  void start() {
    worker_ = std::thread([this] {
      while (!leaving_) window_->step();
    });
  }
  void stop() {
    leaving_ = true;
    if (worker_.joinable()) worker_.join();
  }
  void plan_up_to(std::uint64_t batches) {
    while (
        next_ < batches &&
        pool_->plan({.sequence = next_, .epoch = 0, .first = static_cast<std::int64_t>(next_), .count = 1}))
      ++next_;
  }
  /// Takes the batches [from, to), which it plans. Those with an error in their place.
  std::vector<std::uint64_t> take(std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t> errors;
    while (from < to) {
      pool_->sweep();
      plan_up_to(to);
      pool_->serve_grants();
      const auto ready = pool_->find_ready(from);
      if (!ready) {
        std::this_thread::sleep_for(100us);
        continue;
      }
      if (ready->error)
        errors.push_back(from);
      else
        EXPECT_EQ(ready->block[kBytes - 1], static_cast<std::byte>(from));
      pool_->take(ready->slot);
      pool_->release(ready->slot);
      ++from;
    }
    return errors;
  }
  std::vector<std::uint64_t> announced() {
    const std::lock_guard lock(sampling_.mutex);
    return sampling_.announced;
  }

  Sampling sampling_;
  AnnounceOrder order_;
  std::unique_ptr<ChannelMemory> memory_;
  std::optional<ChannelView> view_;
  std::optional<SlotPool> pool_;
  std::optional<WorkerPort> port_;
  std::vector<std::unique_ptr<Bench>> benches_;
  std::optional<BatchWindow> window_;
  std::atomic<bool> leaving_{false};
  std::uint64_t next_ = 0;  // batch that is planned
  std::thread worker_;
};

/// So long as it takes to sample: later batches end before earlier ones.
std::chrono::microseconds sampling_time(std::uint64_t batch) {
  return 200us * (1 + (kWindow - batch % (kWindow + 1)));
}

TEST_F(BatchWindowTest, BatchesWhoseSamplingEndsInAnyOrder_AnnounceInTheirOwn) {
  sampling_.before_turn = [](std::uint64_t batch) { std::this_thread::sleep_for(sampling_time(batch)); };
  start();
  EXPECT_TRUE(take(0, 100).empty());
  stop();
  const std::vector<std::uint64_t> all = announced();
  EXPECT_EQ(all.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  EXPECT_GT(benches_.size(), 1U) << "several at a time";
}

TEST_F(BatchWindowTest, ABatchThatFailsBeforeItsTurn_IsAnErrorAndHoldsUpNobody) {
  sampling_.before_turn = [](std::uint64_t batch) {
    std::this_thread::sleep_for(sampling_time(batch));
    if (batch % 5 == 2) throw Error(ErrorCode::kTimeout, "a machine gave no answer");
    if (batch % 5 == 3) throw std::bad_alloc();
  };
  start();
  EXPECT_EQ(take(0, 40).size(), 16U);
  stop();
  const std::vector<std::uint64_t> all = announced();
  EXPECT_EQ(all.size(), 24U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
}

TEST_F(BatchWindowTest, BatchesOfAnEpochThatIsLeft_PassTheirTurnsOn) {
  sampling_.before_turn = [](std::uint64_t batch) { std::this_thread::sleep_for(sampling_time(batch)); };
  plan_up_to(kSlots);
  start();
  std::this_thread::sleep_for(1ms);
  pool_->abandon();
  EXPECT_TRUE(take(kSlots, kSlots + 40).empty());
  stop();
  EXPECT_TRUE(std::ranges::is_sorted(announced()));
}

TEST_F(BatchWindowTest, AWorkerThatLeaves_EndsWithBatchesThatWaitForTheirTurns) {
  std::atomic<bool> held{true};
  std::atomic<std::int64_t> begun{0};
  sampling_.before_turn = [&](std::uint64_t batch) {
    ++begun;
    while (batch == 0 && held) std::this_thread::sleep_for(1ms);
  };
  plan_up_to(kWindow + 1);
  start();
  while (begun <= kWindow) std::this_thread::sleep_for(1ms);
  stop();
  EXPECT_TRUE(announced().empty());
  std::thread goes_on([&] {
    std::this_thread::sleep_for(20ms);
    held = false;
  });
  benches_.clear();  // waits for them
  goes_on.join();
  EXPECT_EQ(announced().size(), kWindow + 1U);
}

TEST_F(BatchWindowTest, AProcessThatIsBroken_EndsWithBatchesThatWaitForTheirTurns) {
  sampling_.before_turn = [](std::uint64_t batch) {
    std::this_thread::sleep_for(2ms);
    if (batch == 0) throw BrokenProcess(ErrorCode::kIo, "the process is broken");
  };
  plan_up_to(kWindow + 1);
  EXPECT_THROW(while (true) window_->step(), BrokenProcess);
  benches_.clear();
  EXPECT_EQ(announced().size(), kWindow + 0U);
}

}  // namespace
}  // namespace hopfeed
