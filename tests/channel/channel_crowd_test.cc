// Everything that a channel does at once, with real threads over heap memory and over a sealed memfd: workers
// that fill, ask, die and come back, a loader that keeps the order and the bound. Part of the conformance
// suite.
#include <atomic>
#include <functional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "channel/futex.h"
#include "core/base/failpoint.h"
#include "tests/channel/conformance_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

/// Worker threads that fill blocks of changing size and now and then drop one half-written, as a killed
/// process would; they come back under a new incarnation once the loader has taken their slots back.
class Crowd {
 public:
  Crowd(ChannelView view, std::uint32_t workers, int deaths_per_mille)
      : view_(view), died_(workers), restarted_(workers) {
    for (std::uint32_t w = 0; w < workers; ++w)
      threads_.emplace_back([this, w, deaths_per_mille] { run(w, deaths_per_mille); });
  }
  ~Crowd() {
    view_.control().terminate = 1;
    view_.control().work_event.bump();
    for (std::uint32_t w = 0; w < restarted_.size(); ++w) restarted_[w] = true;
    for (std::thread& thread : threads_) thread.join();
  }
  static std::size_t block_bytes(std::uint64_t sequence) {
    return 64 + sequence * 7'919 % (8 * kPageBytes - 64);
  }
  static std::byte value(std::uint64_t sequence, std::size_t at) {
    return static_cast<std::byte>(sequence * 31 + at * 7);
  }
  /// The supervisor's part: slots back, then the replacement.
  int bury(SlotPool& pool) {
    int deaths = 0;
    for (std::uint32_t w = 0; w < died_.size(); ++w) {
      if (!died_[w].exchange(false)) continue;
      pool.reclaim(view_.worker(w).incarnation);
      view_.worker(w).incarnation = ++last_incarnation_;
      restarted_[w] = true;
      ++deaths;
    }
    return deaths;
  }

 private:
  void run(std::uint32_t w, int deaths_per_mille) {
    std::mt19937 random(w + 1);
    auto dies_here = [&] { return static_cast<int>(random() % 4'000) < deaths_per_mille; };
    while (view_.control().terminate == 0) {
      WorkerPort port(view_, w, -1);
      while (!port.terminating() && serve(port, dies_here)) {
      }
      if (port.terminating()) return;
      died_[w] = true;
      view_.control().loader_event.bump();
      while (!restarted_[w].exchange(false)) std::this_thread::yield();
    }
  }
  /// False where the worker died on the way.
  bool serve(WorkerPort& port, const std::function<bool()>& dies_here) {
    std::optional<Claim> claim = port.claim(20ms);
    if (!claim) return true;
    if (dies_here()) return false;
    const std::size_t bytes = block_bytes(claim->batch.sequence);
    port.ask(*claim, bytes);
    if (dies_here()) return false;
    WorkerPort::Grant grant = WorkerPort::Grant::kWaiting;
    while ((grant = port.await_grant(*claim, bytes, 20ms)) == WorkerPort::Grant::kWaiting) {
      if (port.terminating()) return true;
    }
    if (grant == WorkerPort::Grant::kAbandoned) return port.publish(*claim, 0);
    const std::span<std::byte> block = port.block(*claim, bytes);
    for (std::size_t i = 0; i < bytes / 2; ++i) block[i] = value(claim->batch.sequence, i);
    if (dies_here()) return false;
    for (std::size_t i = bytes / 2; i < bytes; ++i) block[i] = value(claim->batch.sequence, i);
    if (dies_here()) return false;
    return port.publish(*claim, bytes);
  }

  ChannelView view_;
  std::vector<std::atomic<bool>> died_, restarted_;
  std::uint32_t last_incarnation_ = 1'000;
  std::vector<std::thread> threads_;
};

/// Sequences rise over epochs; of every epoch but the last only a part is read.
struct CrowdRun {
  std::uint32_t workers = 3;
  int deaths_per_mille = 0;
  std::vector<std::uint64_t> batches_read;  // per epoch, of `batches` each
  std::uint64_t batches = 300;
};

class CrowdedChannel : public Channel {
 protected:
  /// Returns the number of deaths.
  int run(const CrowdRun& options) {
    int deaths = 0;
    Crowd crowd(*view_, options.workers, options.deaths_per_mille);
    std::uint64_t first = 0;
    for (std::uint64_t to_read : options.batches_read) {
      std::uint64_t planned = 0;
      for (std::uint64_t read = 0; read < to_read;) {
        const std::uint32_t seen = view_->control().loader_event.load();
        deaths += crowd.bury(*pool_);
        pool_->sweep();
        pool_->serve_grants();
        while (planned < options.batches && pool_->plan(batch(first + planned))) ++planned;
        EXPECT_LE(pool_->granted(), 20 * kPageBytes + 8 * kPageBytes);
        const auto finished = pool_->find_ready(first + read);
        if (!finished) {
          view_->control().loader_event.wait(seen, 20ms);
          continue;
        }
        pool_->take(finished->slot);
        expect_block(first + read, finished->block);
        pool_->release(finished->slot);
        ++read;
      }
      pool_->abandon();
      first += planned;
    }
    return deaths;
  }
  static void expect_block(std::uint64_t sequence, std::span<const std::byte> block) {
    ASSERT_EQ(block.size(), Crowd::block_bytes(sequence));
    for (std::size_t i = 0; i < block.size(); ++i)
      ASSERT_EQ(block[i], Crowd::value(sequence, i)) << "byte " << i << " of batch " << sequence;
  }
  void SetUp() override {
    open({.num_slots = 6, .num_workers = 3, .slot_stride = 8 * kPageBytes},
         {.channel_size = 20 * kPageBytes, .allowance = 8 * kPageBytes});
  }
};

TEST_P(CrowdedChannel, ThreeWorkers_EveryBatchArrivesOnceInOrderAndWhole) { run({.batches_read = {300}}); }

TEST_P(CrowdedChannel, WorkersDieAtAnyStep_EveryBatchArrivesOnceInOrderAndWhole) {
  EXPECT_GT(run({.deaths_per_mille = 400, .batches_read = {300}}), 20);
}

// F36
TEST_P(CrowdedChannel, ThreadsGiveWayAtEachFailpoint_EveryBatchArrivesOnceInOrderAndWhole) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  setenv("HOPFEED_FAIL",
         "channel.before_claim=yield@*,channel.after_claim=yield@*,channel.after_ask=yield@*,"
         "channel.before_publish=yield@*,channel.after_publish=yield@*",
         1);
  run({.deaths_per_mille = 200, .batches_read = {3, 40, 300}});
  unsetenv("HOPFEED_FAIL");
}

TEST_P(CrowdedChannel, EpochsAreLeftEarly_TheNextOneIsWhole) {
  run({.deaths_per_mille = 100, .batches_read = {3, 17, 0, 1, 60, 2, 300}});
}

INSTANTIATE_TEST_SUITE_P(Memory, CrowdedChannel, kMechanisms, name_of);

}  // namespace
}  // namespace hopfeed
