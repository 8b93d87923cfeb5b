// The loader when nothing goes wrong: the same bytes as the serial oracle, whatever the number of workers,
// ranks, partitions and the size of the channel; the life of batches; epochs left early and started again.
#include <map>
#include <set>
#include <thread>

#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

TEST_F(LoaderTest, OneTwoAndFourWorkers_GiveTheOraclesBytesInTheOraclesOrder) {
  for (std::int64_t workers : {1, 2, 4}) {
    LoaderOptions o = options();
    o.num_workers = workers;
    Loader loader(o);
    EXPECT_EQ(static_cast<std::int64_t>(loader.worker_pids().size()), workers);
    for (std::int64_t epoch : {0, 1, 5})
      EXPECT_EQ(loaded(loader, {.epoch = epoch}), expected(o, {.epoch = epoch})) << workers << " workers";
  }
}

TEST_F(LoaderTest, OneTwoAndThreePartitions_GiveTheSameBytes) {
  const std::vector<std::string> one = expected(options(1));
  for (int parts : {1, 2, 3}) {
    Loader loader(options(parts));
    EXPECT_EQ(loaded(loader), one) << parts << " partitions";
  }
}

TEST_F(LoaderTest, OtherOptions_ReachTheWorkers) {
  for (int variant = 0; variant < 6; ++variant) {
    LoaderOptions o = options(2);
    if (variant == 0) o.batch.edge_ids = true;
    if (variant == 1) o.batch.dataset_ids = true;
    if (variant == 2) o.batch.replace = true;
    if (variant == 3) o.shuffle = false;
    if (variant == 4) o.batch.fanouts = {-1, -1};
    if (variant == 5)
      o.split = "valid", o.seed = ~std::uint64_t{0}, o.batch.attrs = std::vector<std::string>{"y"};
    Loader loader(o);
    EXPECT_EQ(loaded(loader), expected(o)) << "variant " << variant;
  }
}

TEST_F(LoaderTest, SeedsGivenById_WithRepeats) {
  LoaderOptions o = options();
  o.seeds = {{5, 399, 0, 5, 5, 7, 8, 9, 10, 5}};
  o.batch_size = 4;
  Loader loader(o);
  EXPECT_EQ(loader.num_seeds(), 10);
  EXPECT_EQ(loaded(loader), expected(o));
}

TEST_F(LoaderTest, ResumedRun_GivesWhatWasLeft) {
  const LoaderOptions o = options();
  Loader loader(o);
  const std::vector<std::string> whole = loaded(loader, {.epoch = 3});
  loader.begin_epoch(3);
  EXPECT_EQ(loader.next_position(), 0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.next_position(), 5 * 16);
  Loader resumed(o);
  const std::vector<std::string> rest = loaded(resumed, {.epoch = 3, .start = loader.next_position()});
  EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 5, whole.end()));
  EXPECT_EQ(resumed.next_position(), 230);
}

/// Takes `steps` batches of each rank of `world` from `start` on (all that are left where it is negative),
/// counts their seeds by original id, and gives the position where a checkpoint would resume.
std::int64_t count_seeds(LoaderOptions options, std::int64_t world, std::int64_t start, std::int64_t steps,
                         std::map<std::int64_t, int>& seen) {
  std::int64_t next = start;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    options.rank = rank;
    options.world_size = world;
    options.num_workers = 1;
    Loader loader(options);
    loader.begin_epoch(0, start);
    for (std::int64_t step = 0; step != steps; ++step) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      for (const std::int64_t node : batch->view().n_id().first(batch->view().key().count)) ++seen[node];
    }
    next = loader.next_position();
  }
  return next;
}

TEST_F(LoaderTest, ResumedWithThreeRanksAndWithTwoAgain_EachTrainingNodeComesOnce) {
  std::map<std::int64_t, int> seen;
  std::int64_t position = count_seeds(options(), 2, 0, 2, seen);
  EXPECT_EQ(position, 2 * 2 * 16);
  position = count_seeds(options(), 3, position, 2, seen);
  EXPECT_EQ(position, 2 * 2 * 16 + 2 * 3 * 16);
  EXPECT_EQ(count_seeds(options(), 2, position, -1, seen), 230);
  std::map<std::int64_t, int> expected;
  const Dataset dataset(path(1));
  for (const std::int64_t node : dataset.split(0, "train")) expected[node] = 1;
  EXPECT_EQ(seen, expected);
}

TEST_F(LoaderTest, RanksShareTheEpoch_EachSeedPositionOnce) {
  for (const std::int64_t world : {2, 3}) {
    std::map<std::int64_t, std::int64_t> ranges;
    std::set<std::int64_t> steps;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      LoaderOptions o = options();
      o.rank = rank;
      o.world_size = world;
      o.num_workers = 1;
      Loader loader(o);
      loader.begin_epoch(0);
      steps.insert(loader.steps());
      while (const std::optional<Batch> batch = loader.next())
        ranges[batch->view().key().first] = batch->view().key().count;
      EXPECT_EQ(loader.next_position(), 230) << "of all ranks";
      EXPECT_EQ(loaded(loader), expected(o));
    }
    EXPECT_EQ(steps.size(), 1U) << "every rank makes the same number of steps";
    std::int64_t next = 0;
    for (const auto& [first, count] : ranges) {
      EXPECT_EQ(first, next);
      next = first + count;
    }
    EXPECT_EQ(next, 230);
  }
}

TEST_F(LoaderTest, DropLast_LeavesTheIncompleteRoundOut) {
  LoaderOptions o = options();
  o.drop_last = true;
  Loader loader(o);
  EXPECT_EQ(loaded(loader).size(), 14U);  // 230 / 16
  EXPECT_EQ(loaded(loader), expected(o));
}

TEST_F(LoaderTest, EpochLeftEarlyAndStartedAgain_IsTheSameEpoch) {
  const LoaderOptions o = options();
  Loader loader(o);
  for (int i = 0; i < 20; ++i) {
    loader.begin_epoch(i);
    for (int read = 0; read < i % 7; ++read) ASSERT_TRUE(loader.next());
  }
  EXPECT_EQ(loaded(loader, {.epoch = 4}), expected(o, {.epoch = 4}));
  EXPECT_EQ(loaded(loader, {.epoch = 4}), expected(o, {.epoch = 4}));
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

TEST_F(LoaderTest, TwoLoadersAtOnce_DoNotDisturbEachOther) {
  const LoaderOptions train = options();
  LoaderOptions valid = options(2);
  valid.split = "valid";
  Loader a(train), b(valid);
  a.begin_epoch(0);
  b.begin_epoch(0);
  std::vector<std::string> from_a, from_b;
  for (bool more = true; more;) {
    more = false;
    if (const auto batch = a.next()) from_a.push_back(line_of(batch->view())), more = true;
    if (const auto batch = b.next()) from_b.push_back(line_of(batch->view())), more = true;
  }
  EXPECT_EQ(from_a, expected(train));
  EXPECT_EQ(from_b, expected(valid));
}

// ---- the life of a batch

TEST_F(LoaderTest, EndOfTheEpoch_IsNothing_AlsoWhenAskedAgain) {
  Loader loader(options());
  const std::size_t batches = loaded(loader).size();
  EXPECT_EQ(static_cast<std::int64_t>(batches), loader.steps());
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST_F(LoaderTest, CallerHoldsEverySlot_IsAnErrorThatSaysSo_AndGoesOnOnceOneIsDropped) {
  LoaderOptions o = options();
  o.num_slots = 3;
  Loader loader(o);
  loader.begin_epoch(0);
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(*loader.next());
  const std::vector<std::string> want = expected(o);
  EXPECT_EQ(error_of([&] { loader.next(); }),
            "invalid: all 3 slots of the channel hold batches that the caller still views; drop one "
            "before next(), or raise num_slots");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(line_of(held[i].view()), want[i]) << "untouched while held";
  held.erase(held.begin());
  EXPECT_EQ(line_of(loader.next()->view()), want[3]);
}

TEST_F(LoaderTest, SlotIsGivenBackWithTheLastCopy_InAnyThread) {
  LoaderOptions o = options();
  o.num_slots = 1;
  Loader loader(o);
  loader.begin_epoch(0);
  std::optional<Batch> first = loader.next();
  Batch copy = *first;
  first.reset();
  EXPECT_NE(error_of([&] { loader.next(); }).find("all 1 slots"), std::string::npos);
  std::thread([moved = std::move(copy)]() mutable { const Batch last = std::move(moved); }).join();
  EXPECT_TRUE(loader.next());
}

TEST_F(LoaderTest, BatchOutlivesItsLoader) {
  const LoaderOptions o = options();
  std::optional<Batch> batch;
  {
    Loader loader(o);
    loader.begin_epoch(0);
    batch = loader.next();
  }
  EXPECT_EQ(line_of(batch->view()), expected(o)[0]);
  EXPECT_GT(batch->times().taken, 0);
}

TEST_F(LoaderTest, TimesOfABatch_AreInOrder) {
  Loader loader(options());
  loader.begin_epoch(0);
  while (const auto batch = loader.next()) {
    const BatchTimes t = batch->times();
    EXPECT_LE(t.planned, t.claimed);
    EXPECT_LE(t.claimed, t.sampled);
    EXPECT_LE(t.sampled, t.gathered);
    EXPECT_LE(t.gathered, t.published);
    EXPECT_LE(t.published, t.taken);
    EXPECT_GT(t.planned, 0);
  }
}

TEST_F(LoaderTest, Observer_HearsOfEachBatchOnceWithAllSevenTimes) {
  std::vector<BatchRecord> records;
  LoaderOptions o = options();
  o.observer = [&records](const BatchRecord& record) { records.push_back(record); };
  std::vector<BatchKey> handed_out;
  {
    Loader loader(o);
    loader.begin_epoch(3);
    while (const auto batch = loader.next()) handed_out.push_back(batch->view().key());
  }
  ASSERT_EQ(records.size(), handed_out.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const BatchRecord& r = records[i];
    EXPECT_EQ(r.epoch, 3);
    EXPECT_EQ(r.first, handed_out[i].first);
    EXPECT_EQ(r.count, handed_out[i].count);
    EXPECT_LT(r.worker, 2U);
    EXPECT_GT(r.bytes, 0U);
    const double in_order[] = {r.times.planned,   r.times.claimed, r.times.sampled, r.times.gathered,
                               r.times.published, r.times.taken,   r.times.released};
    EXPECT_TRUE(std::is_sorted(std::begin(in_order), std::end(in_order))) << "batch " << i;
    EXPECT_GT(r.times.planned, 0);
    EXPECT_LE(r.asked, r.times.taken);
    EXPECT_LE(r.times.taken, r.left);
    EXPECT_LE(r.left, r.times.released);
  }
}

TEST_F(LoaderTest, BatchesHeldOverTheNext_AreLeftWhenTheNextIsAskedFor) {
  std::vector<BatchRecord> records;
  LoaderOptions o = options();
  o.observer = [&records](const BatchRecord& record) { records.push_back(record); };
  Loader loader(o);
  loader.begin_epoch(0);
  { const auto first = loader.next(), second = loader.next(); }
  ASSERT_EQ(records.size(), 2U);
  const BatchRecord &second = records[0], &first = records[1];  // dropped in this order
  EXPECT_EQ(first.left, second.asked);
  EXPECT_LT(first.left, first.times.released);
  EXPECT_EQ(second.left, second.times.released);
}

long ticks_of_workers(const Loader& loader) {
  long ticks = 0;
  for (int pid : loader.worker_pids()) ticks += testing::cpu_ticks(pid);
  return ticks;
}

/// No worker has run for a while: the channel is full, or the epoch over.
bool workers_come_to_rest(const Loader& loader) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < give_up) {
    const long before = ticks_of_workers(loader);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (ticks_of_workers(loader) == before) return true;
  }
  return false;
}

TEST_F(LoaderTest, EpochPlannedToItsEnd_WorkersRestAndThatIsNoWait) {
  LoaderOptions o = options();
  o.num_slots = 64;  // more than the epoch has batches
  Loader loader(o);
  loader.begin_epoch(0);
  while (loader.next()) {
  }
  ASSERT_TRUE(workers_come_to_rest(loader));  // who waited before the epoch was planned whole has told so
  const double waited = loader.stats().waits.for_slot;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(loader.stats().waits.for_slot, waited);
}

TEST_F(LoaderTest, LoaderMadeAndDroppedAtOnce_LeavesNothing) {
  for (int i = 0; i < 5; ++i) {
    Loader loader(options());
    const std::vector<int> pids = loader.worker_pids();
    EXPECT_EQ(pids.size(), 2U);
  }
}

// ---- memory

TEST_F(LoaderTest, ChannelOfAlmostNothing_GivesTheSameBytesWithinOneBatchMore) {
  LoaderOptions o = options();
  o.channel_size = 1;
  o.num_workers = 3;
  Loader loader(o);
  const Dataset dataset(o.dataset);
  const NodeList seeds(dataset.split(0, "train"), {});
  const std::size_t worst = BatchMaker(dataset, seeds, o.batch).max_block_bytes(o.batch_size);
  const std::vector<std::string> want = expected(o);
  loader.begin_epoch(0);
  for (const std::string& line : want) {
    const auto batch = loader.next();
    EXPECT_EQ(line_of(batch->view()), line);
    EXPECT_LE(loader.stats().channel_bytes, worst + 4096 + 4096 + 1024 * 20);
  }
  EXPECT_FALSE(loader.next());
}

TEST_F(LoaderTest, HeldBatchTakesTheMemoryOfTheNext_IsAnErrorThatSaysSo) {
  LoaderOptions o = options();
  o.channel_size = 1;
  o.batch.fanouts = {-1, -1, -1};  // each batch is nearly the whole graph
  Loader loader(o);
  loader.begin_epoch(0);
  std::optional<Batch> held = loader.next();
  EXPECT_NE(error_of([&] { loader.next(); }).find("drop batches before next(), or raise channel_size"),
            std::string::npos);
  held.reset();
  EXPECT_TRUE(loader.next());
}

std::size_t resident_in_all(const Loader& loader) {
  std::size_t bytes = testing::resident_bytes(getpid());
  for (int pid : loader.worker_pids()) bytes += testing::resident_bytes(pid);
  return bytes;
}

// F10
TEST_F(LoaderTest, SlowConsumer_MakesWorkersSleepAndMemoryStay) {
  Loader loader(options());
  loaded(loader);  // whatever is made once is made
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  ASSERT_TRUE(workers_come_to_rest(loader));
  const std::size_t bytes = loader.stats().channel_bytes;
  const double full = loader.stats().waits.for_slot;
  const std::size_t resident = resident_in_all(loader);
  const long before = ticks_of_workers(loader);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_LE(ticks_of_workers(loader) - before, 4) << "clock ticks of two workers in two seconds";
  EXPECT_EQ(loader.stats().channel_bytes, bytes);
  EXPECT_LE(resident_in_all(loader), resident + (256 << 10)) << "memory of the loader and its workers";
  EXPECT_GT(loader.stats().waits.for_slot, full) << "the wait is counted";
}

}  // namespace
}  // namespace hopfeed
