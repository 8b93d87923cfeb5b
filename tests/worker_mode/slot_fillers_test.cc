// What every kind of SlotFillers has to do: one suite over processes (Supervisor), threads that block, and an
// event loop whose fillers hold several claims each. The oracle makes each batch in this thread.
#include "stream/slot_fillers.h"

#include <signal.h>

#include <map>
#include <ostream>

#include "channel/batch_plan.h"
#include "stream/loader_channel.h"
#include "stream/slot_keeper.h"
#include "tests/worker_mode/loader_fixture.h"
#include "tests/worker_mode/thread_fillers.h"
#include "worker_mode/supervisor.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

enum class Kind { kProcesses, kThreads, kEventLoop };
void PrintTo(Kind kind, std::ostream* out) {
  *out << (kind == Kind::kProcesses ? "Processes" : kind == Kind::kThreads ? "Threads" : "EventLoop");
}

constexpr std::uint64_t kSeed = 11;
constexpr std::int64_t kBatchSize = 16;
constexpr std::uint32_t kFillers = 2;

class Fillers : public LoaderTestWithin<120>, public ::testing::WithParamInterface<Kind> {
 protected:
  static BatchOptions batch_options() {
    BatchOptions options;
    options.fanouts = {4, 3};
    return options;
  }
  static std::unique_ptr<ThreadMaker> block_maker() {
    return std::make_unique<ThreadMaker>(path(1), batch_options(), kSeed);
  }

  void SetUp() override {
    LoaderTestWithin<120>::SetUp();
    oracle_ = block_maker();
    const std::size_t stride =
        round_up(oracle_->maker().max_block_bytes(kBatchSize), std::size_t{kPageBytes});
    const ChannelPlan sizes{
        .shape = {.num_slots = 6, .num_workers = kFillers, .slot_stride = stride},
        .pool = {.channel_size = stride, .allowance = stride},  // so that memory has to be waited for
        .needed = 0};
    host_ = std::make_shared<ChannelHost>(
        sizes, GetParam() == Kind::kProcesses ? make_shared_memory : make_heap_memory);
    start();
    fillers_->wait_until_ready();
  }
  void TearDown() override {
    fillers_.reset();
    host_->close();
    host_.reset();
    oracle_.reset();
    LoaderTestWithin<120>::TearDown();
  }
  /// Whether the supervisor, where there is one, waits on the doorbell.
  virtual bool answers_doorbell() const { return true; }
  void start() {
    if (GetParam() != Kind::kProcesses) {
      std::unique_ptr<DoomedFillers> fillers;
      if (GetParam() == Kind::kThreads)
        fillers = std::make_unique<ThreadFillers>(host_, block_maker);
      else
        fillers = std::make_unique<EventLoopFillers>(host_, block_maker);
      doomed_ = fillers.get();
      fillers_ = std::move(fillers);
      return;
    }
    SupervisorOptions options;
    options.program = testing::program("hopfeed-worker");
    const Dataset dataset(path(1).string());
    options.config.dataset = path(1).string();
    options.config.manifest = manifest_hash(dataset.meta());
    options.config.spec = {.fingerprint = dataset.meta().fingerprint,
                           .batch = batch_options(),
                           .seeds = {.node_type = "node", .split = "train"},
                           .seed = kSeed};
    options.cores.resize(kFillers);
    options.batch_deadline = options.start_deadline = 60s;
    options.max_restarts = 1'000;
    options.answers_doorbell = answers_doorbell();
    fillers_ = std::make_unique<Supervisor>(host_, std::move(options));
  }
  void kill(std::uint32_t number) {
    if (doomed_ != nullptr) return doomed_->doom(number);
    const std::vector<int> pids = fillers_->pids();
    if (number < pids.size()) ::kill(pids[number], SIGKILL);
  }

  std::string expected_line(const PlannedBatch& batch) { return line_of(BatchView(oracle_->make(batch))); }
  Deal deal() const { return Deal({.batch_size = kBatchSize}, oracle_->size()); }
  /// All batches of an epoch in the order of the deal; `between` is called after each.
  std::vector<std::string> epoch(
      LoaderChannel& channel, std::int64_t number, const std::function<void()>& between = [] {}) {
    std::vector<std::string> lines;
    channel.begin_epoch(number, deal());
    while (const auto taken = channel.next(60s)) {
      lines.push_back(line_of(BatchView(taken->block)));
      channel.release(taken->slot);
      between();
    }
    return lines;
  }
  std::vector<std::string> expected_epoch(std::int64_t number) {
    std::vector<std::string> lines;
    DealPlan plan(deal(), {.epoch = number});
    while (const auto batch = plan.next()) lines.push_back(expected_line(*batch));
    return lines;
  }
  std::int64_t deaths() {
    const MutexLock lock(host_->mutex);
    return host_->deaths();
  }

  std::unique_ptr<ThreadMaker> oracle_;
  std::shared_ptr<ChannelHost> host_;
  std::unique_ptr<SlotFillers> fillers_;
  DoomedFillers* doomed_ = nullptr;  // the same, where it can be told to die
};

TEST_P(Fillers, EpochsByTheDeal_AreTheOraclesBytes) {
  LoaderChannel channel(host_, {});
  EXPECT_EQ(epoch(channel, 0), expected_epoch(0));
  channel.begin_epoch(1, deal());  // left at once
  channel.begin_epoch(2, deal());
  channel.release(channel.next(60s)->slot);
  EXPECT_EQ(epoch(channel, 3), expected_epoch(3));
}

/// Takes batches of a queue as they come, as the session of a server will. Each must be the oracle's.
class Session {
 public:
  Session(ChannelHost& host, std::function<std::string(const PlannedBatch&)> oracle)
      : host_(host), oracle_(std::move(oracle)) {
    const MutexLock lock(host_.mutex);
    host_.plan_from(queue_);
  }
  bool done() const { return taken_ == kRequests; }
  /// False where there is nothing to take for now.
  bool step() {
    std::optional<SlotPool::Finished> finished;
    {
      const MutexLock lock(host_.mutex);
      for (; asked_ < kRequests && open_.size() < 10; ++asked_) {  // from the back, of two epochs by turns
        const BatchRequest request{.epoch = asked_ % 2, .first = 210 - 2 * asked_, .count = 1 + asked_ % 16};
        const std::uint64_t sequence = queue_->push(request);
        open_[sequence] = {
            .sequence = sequence, .epoch = request.epoch, .first = request.first, .count = request.count};
      }
      host_.pump();
      finished = host_.pool().find_any_ready();
      if (!finished) return false;
      host_.pool().take(finished->slot);
    }
    EXPECT_FALSE(finished->error) << finished->error->what();
    EXPECT_TRUE(open_.contains(finished->sequence));
    EXPECT_EQ(line_of(BatchView(finished->block)), oracle_(open_[finished->sequence]));
    open_.erase(finished->sequence);
    host_.release(finished->slot);
    ++taken_;
    return true;
  }

 private:
  static constexpr std::int64_t kRequests = 100;
  ChannelHost& host_;
  const std::function<std::string(const PlannedBatch&)> oracle_;
  const std::shared_ptr<QueuePlan> queue_ = std::make_shared<QueuePlan>();
  std::map<std::uint64_t, PlannedBatch> open_;  // by sequence
  std::int64_t asked_ = 0, taken_ = 0;
};

TEST_P(Fillers, RequestsOfAQueue_AreTakenAsTheyComeAndAreTheOraclesBytes) {
  Session session(*host_, [this](const PlannedBatch& batch) { return expected_line(batch); });
  SharedEvent& event = host_->view().control().loader_event;
  while (!session.done()) {
    const std::uint32_t seen = event.load();
    if (!session.step()) event.wait(seen, 100ms);
  }
}

/// It waits on the doorbell in the supervisor's place, for ever: no wake-up may be lost.
class SleepingSession : public Fillers {
  bool answers_doorbell() const override { return false; }
};

TEST_P(SleepingSession, IsWokenByEachBatchAndByDeaths) {
  Session session(*host_, [this](const PlannedBatch& batch) { return expected_line(batch); });
  SharedEvent& event = host_->view().control().loader_event;
  for (std::uint32_t steps = 0; !session.done(); ++steps) {
    if (steps % 16 == 7) kill(steps / 16 % kFillers);
    event.listen();
    pollfd doorbell{.fd = host_->doorbell().fd(), .events = POLLIN, .revents = 0};
    if (!session.step()) poll(&doorbell, 1, -1);
    event.stop_listening();
    host_->doorbell().drain();
  }
}

TEST_P(Fillers, FillersDieAgainAndAgain_TheBytesAreTheSame) {
  LoaderChannel channel(host_, {});
  std::uint32_t calls = 0;
  for (std::int64_t number = 0; number < 4 || deaths() < 10; ++number) {
    const std::vector<std::string> lines = epoch(channel, number, [&] {
      if (++calls % 4 == 0) kill(calls / 4 % kFillers);
    });
    ASSERT_EQ(lines, expected_epoch(number)) << "epoch " << number;
  }
}

TEST_P(Fillers, EndWhileBatchesArePlanned_LeavesNoFillerBehind) {
  LoaderChannel channel(host_, {});
  channel.begin_epoch(0, deal());
  channel.release(channel.next(60s)->slot);
  fillers_.reset();
  doomed_ = nullptr;
  const std::uint64_t published = host_->view().control().published.load();
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(host_->view().control().published.load(), published);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fillers,
                         ::testing::Values(Kind::kProcesses, Kind::kThreads, Kind::kEventLoop),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

INSTANTIATE_TEST_SUITE_P(Kinds, SleepingSession, ::testing::Values(Kind::kProcesses),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

// ---- the keeper

TEST(SlotKeeper, NamesAreNew_DeathGivesAllSlotsBackAndOwnerlessOnesToo) {
  const auto host = std::make_shared<ChannelHost>(
      ChannelPlan{.shape = {.num_slots = 4, .num_workers = 2, .slot_stride = kPageBytes},
                  .pool = {.channel_size = 4 * kPageBytes, .allowance = kPageBytes},
                  .needed = 0},
      make_heap_memory);
  const auto queue = std::make_shared<QueuePlan>();
  for (int i = 0; i < 4; ++i) queue->push({.epoch = 0, .first = i, .count = 1});
  {
    const MutexLock lock(host->mutex);
    host->plan_from(queue);
    host->pump();
  }
  SlotKeeper keeper(host);
  keeper.welcome(0);
  keeper.welcome(1);
  EXPECT_NE(keeper.name_of(0), keeper.name_of(1));
  WorkerPort first(host->view(), 0, -1), second(host->view(), 1, -1);
  EXPECT_TRUE(first.try_claim() && first.try_claim() && second.try_claim());
  SlotRecord& forged = host->view().slot(3);
  const std::uint32_t generation = SlotWord::unpack(forged.word.load()).generation;
  forged.word.store(SlotWord{SlotState::kFilling, 4'711, generation}.pack());
  EXPECT_EQ(host->filling().size(), 4U);
  keeper.reclaim_ownerless(host->filling());
  EXPECT_EQ(host->filling().size(), 3U);
  const std::uint32_t name = keeper.name_of(0);
  keeper.bury(0);
  EXPECT_EQ(keeper.name_of(0), 0U);
  EXPECT_EQ(host->filling().size(), 1U) << "the living one keeps its own";
  keeper.welcome(0);
  EXPECT_NE(keeper.name_of(0), name);
  EXPECT_FALSE(host->filling().empty());
  host->close();
}

}  // namespace
}  // namespace hopfeed
