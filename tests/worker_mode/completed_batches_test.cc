// Batches that came packed and are made whole here: memory that ends on the way skips none, and one that is
// dropped in a fork waits for nobody.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/batch/packed_block.h"
#include "core/maker/batch_maker.h"
#include "stream/batch_completer.h"
#include "stream/channel_stream.h"
#include "stream/loader_source.h"
#include "stream/slot_keeper.h"
#include "tests/core/counted_allocations.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "worker_mode/batch_filler.h"

namespace hopfeed {
namespace {

constexpr HeldShare kHalf{.millionths = 500'000};
constexpr std::int64_t kBatch = 16;

class CompletedBatches : public ::testing::Test {
 protected:
  CompletedBatches() {
    testing::write_tiny_dataset(
        folder_.path() / "d",
        testing::random_graph({.num_nodes = 400, .num_edges = 3'000, .x_width = 16, .num_train = 320}));
    dataset_ = std::make_unique<const Dataset>(folder_.path() / "d");
    rows_ = std::make_shared<HeldRows>(dataset_->meta(), batch_, kHalf);
    std::const_pointer_cast<HeldRows>(rows_)->load(*dataset_);
  }

  const testing::TempFolder folder_;
  const BatchOptions batch_{.fanouts = {4, 3}};
  std::unique_ptr<const Dataset> dataset_;
  std::shared_ptr<const HeldRows> rows_;
};

/// Makes packed batches in the calling thread, where and when the test says.
class PackedStream final : public ChannelStream {
 public:
  PackedStream(const LoaderOptions& options, const Dataset& dataset,
               std::unique_ptr<const BatchSource> source, std::shared_ptr<const HeldRows> rows)
      : ChannelStream(options, loader_spec(options, dataset, *source), dataset.meta(), source->size()),
        source_(std::move(source)),
        maker_(source_->maker(dataset, options.batch)) {
    hold(std::move(rows));
    make_channel(options, maker_);
    SlotKeeper(host()).welcome(0);
    port_.emplace(host()->view(), 0, /*doorbell=*/-1);
    filler_.emplace(*port_, maker_, FillerOptions{.seed = options.seed});
    host()->view().worker(0).pid.store(static_cast<std::uint32_t>(getpid()));
    port_->report_ready();
  }
  ~PackedStream() override { host()->close(); }

  void make_ready() {
    while (!channel().next_is_ready()) {
      host()->service();
      if (filler_->under_way() ? !filler_->try_finish() : !begin()) return;
    }
  }

 private:
  bool begin() {
    std::optional<Claim> claim = port_->try_claim();
    if (!claim) return false;
    claim->batch.held = kHalf;
    filler_->begin(*claim);
    filler_->ask();
    return true;
  }
  void work() override { make_ready(); }

  const std::unique_ptr<const BatchSource> source_;
  BatchMaker maker_;
  std::optional<WorkerPort> port_;
  std::optional<BatchFiller> filler_;
};

// F: a consumer that is short of memory for a moment, and goes on.
TEST_F(CompletedBatches, MemoryThatEndsWhileOneIsCompleted_SkipsNone) {
  LoaderOptions options;
  options.dataset = (folder_.path() / "d").string();
  options.batch = batch_;
  options.deal.batch_size = kBatch;
  options.seed = 3;
  options.execution.num_workers = 1;
  auto source = loader_source(options, *dataset_);
  const NodeList list(dataset_->split(0, "train"), {});
  BatchMaker plain(*dataset_, list, batch_);
  PackedStream stream(options, *dataset_, std::move(source), rows_);
  int shortages = 0;
  for (const std::int64_t epoch : {0, 1}) {
    stream.begin_epoch(epoch, 0);
    for (std::int64_t first = 0; first < list.size(); first += kBatch) {
      stream.make_ready();
      std::optional<Batch> batch;
      for (int after = 0; !batch; ++after) {
        EXPECT_EQ(stream.next_position(), first) << "a checkpoint goes on with the batch that was not given";
        const testing::MemoryEnds ends(after);
        try {
          batch = stream.next();
        } catch (const std::bad_alloc&) {
          ++shortages;
        }
      }
      ASSERT_EQ(batch->view().header().key.first, first);
      EXPECT_EQ(batch->view().digest(),
                testing::make_block(plain, {.seed = 3, .epoch = epoch, .first = first, .count = kBatch})
                    .view()
                    .digest());
    }
    EXPECT_EQ(stream.next(), std::nullopt);
    const StreamStats stats = stream.stats();
    EXPECT_GT(stats.held_rows, 0);
    EXPECT_LT(stats.held_rows, stats.feature_rows);
  }
  EXPECT_GT(shortages, 2 * list.size() / kBatch) << "the lease and the completed block of each";
}

TEST_F(CompletedBatches, OneThatWasNotGivenIsLeftWithItsEpoch) {
  LoaderOptions options;
  options.dataset = (folder_.path() / "d").string();
  options.batch = batch_;
  options.deal.batch_size = kBatch;
  options.execution.num_workers = 1;
  options.execution.num_slots = 2;
  PackedStream stream(options, *dataset_, loader_source(options, *dataset_), rows_);
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {  // a slot that stayed held would be missing soon
    stream.begin_epoch(epoch, 0);
    stream.make_ready();
    {
      const testing::MemoryEnds ends(epoch % 3);
      EXPECT_THROW(static_cast<void>(stream.next()), std::bad_alloc);
    }
  }
  stream.begin_epoch(6, 0);
  EXPECT_EQ(stream.next()->view().header().key.epoch, 6U);
}

/// Keeps nothing: blocks of these tests live longer.
class NoLease final : public BatchOwner {
 public:
  BatchTimes times() const override { return {}; }
};

// A thread of the parent may hold the pool's lock at the very moment of the fork. In the child it never lets
// go.
TEST_F(CompletedBatches, DroppedInAFork_WaitsForNoThreadOfTheParent) {
  const NodeList list(dataset_->split(0, "train"), {});
  BatchMaker maker(*dataset_, list, batch_);
  AlignedBlock packed;
  maker.write(packed.resize(maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = kBatch}, kHalf)));
  ASSERT_TRUE(is_packed(packed.bytes()));
  BatchCompleter completer(rows_);
  const auto lease = std::make_shared<const NoLease>();
  std::optional<Batch> batch = completer.complete(std::as_const(packed).bytes(), lease);
  std::optional<std::thread> other;
  std::optional<testing::OthersWaitForMemory> wait;
  std::atomic<bool> go{false};
  other.emplace([&] {
    while (!go) usleep(1'000);
    static_cast<void>(completer.complete(std::as_const(packed).bytes(), lease));
  });
  wait.emplace();
  go = true;
  while (testing::OthersWaitForMemory::waiting() == 0) usleep(1'000);  // inside of take(), with the lock
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // should it wait after all
    batch.reset();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "ended by signal " << WTERMSIG(status);
  wait.reset();
  other->join();
  batch.reset();
}

}  // namespace
}  // namespace hopfeed
