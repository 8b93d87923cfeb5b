// Every stream of batches has to do this, whoever makes them: the bytes of the serial oracle in its order,
// whatever the ranks, the cut and the memory; the life of batches; epochs left early and started again; the
// same errors. It is one suite, for one file of a test program, which ends with the kinds of streams that it
// runs over.
#pragma once
#include <signal.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {

/// A StreamKind says how a stream is opened, and how all that makes its batches is killed, where that is not
/// the caller.
struct StreamKind {
  const char* name;
  std::unique_ptr<BatchStream> (*open)(LoaderOptions options);
  void (*kill_makers)(BatchStream& stream);  // null: there are none to kill
};

class StreamConformance : public LoaderTestWithin<>, public ::testing::WithParamInterface<StreamKind> {
 protected:
  /// Returns the stream of this kind.
  static std::unique_ptr<BatchStream> open(const LoaderOptions& options) { return GetParam().open(options); }
  static void expect_part(const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  /// Takes `steps` batches of each rank of `world` from `start` on (all that are left where it is negative),
  /// counts their seeds by original id, and gives the position where a checkpoint would resume.
  static std::int64_t count_seeds(std::int64_t world, std::int64_t start, std::int64_t steps,
                                  std::map<std::int64_t, int>& seen) {
    LoaderOptions options = LoaderTestWithin<>::options();
    std::int64_t next = start;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      options.deal.rank = rank;
      options.deal.world_size = world;
      const std::unique_ptr<BatchStream> loader = open(options);
      loader->begin_epoch(0, start);
      for (std::int64_t step = 0; step != steps; ++step) {
        const std::optional<Batch> batch = loader->next();
        if (!batch) break;
        for (const std::int64_t node : batch->view().n_id().first(batch->view().key().count)) ++seen[node];
      }
      next = loader->next_position();
    }
    return next;
  }
};

TEST_P(StreamConformance, OtherOptions_ReachWhoSamples) {
  for (int variant = 0; variant < 6; ++variant) {
    LoaderOptions o = options(2);
    if (variant == 0) o.batch.edge_ids = true;
    if (variant == 1) o.batch.dataset_ids = true;
    if (variant == 2) o.batch.replace = true;
    if (variant == 3) o.shuffle = false;
    if (variant == 4) o.batch.fanouts = {-1, -1};
    if (variant == 5)
      o.split = "valid", o.seed = ~std::uint64_t{0}, o.batch.attrs = std::vector<std::string>{"y"};
    const std::unique_ptr<BatchStream> loader = open(o);
    EXPECT_EQ(loaded(*loader), expected(o)) << "variant " << variant;
  }
}

// Whoever moves such rows sees bytes, an odd number of them.
TEST_P(StreamConformance, RowsWithAScale_ComeAsTheyAreStored) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 301, .num_train = 230});
    graph.x_type = type;
    LoaderOptions o = options();
    o.dataset = (folder() / to_string(type)).string();
    testing::write_tiny_dataset(o.dataset, graph, testing::random_cut(graph, 2, 5));
    const std::unique_ptr<BatchStream> loader = open(o);
    EXPECT_EQ(loaded(*loader), expected(o)) << to_string(type);
    loader->begin_epoch(0);
    const std::optional<Batch> batch = loader->next();
    const ArrayView x = batch->view().get("x", Store::kNode);
    EXPECT_EQ(x.type, type);
    EXPECT_EQ(x.shape[1], 301);
    EXPECT_EQ(batch->view().header().version, kScaledBlockVersion);
  }
}

TEST_P(StreamConformance, SeedsGivenById_WithRepeats) {
  LoaderOptions o = options();
  o.seeds = {{5, 399, 0, 5, 5, 7, 8, 9, 10, 5}};
  o.deal.batch_size = 4;
  const std::unique_ptr<BatchStream> loader = open(o);
  EXPECT_EQ(loader->num_seeds(), 10);
  EXPECT_EQ(loaded(*loader), expected(o));
}

TEST_P(StreamConformance, ResumedRun_GivesWhatWasLeft) {
  const LoaderOptions o = options();
  const std::unique_ptr<BatchStream> loader = open(o);
  const std::vector<std::string> whole = loaded(*loader, {.epoch = 3});
  loader->begin_epoch(3);
  EXPECT_EQ(loader->next_position(), 0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(loader->next());
  EXPECT_EQ(loader->next_position(), 5 * 16);
  const std::unique_ptr<BatchStream> resumed = open(o);
  const std::vector<std::string> rest = loaded(*resumed, {.epoch = 3, .start = loader->next_position()});
  EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 5, whole.end()));
  EXPECT_EQ(resumed->next_position(), 230);
}

TEST_P(StreamConformance, ResumedWithThreeRanksAndWithTwoAgain_EachTrainingNodeComesOnce) {
  std::map<std::int64_t, int> seen;
  std::int64_t position = count_seeds(2, 0, 2, seen);
  EXPECT_EQ(position, 2 * 2 * 16);
  position = count_seeds(3, position, 2, seen);
  EXPECT_EQ(position, 2 * 2 * 16 + 2 * 3 * 16);
  EXPECT_EQ(count_seeds(2, position, -1, seen), 230);
  std::map<std::int64_t, int> expected;
  const Dataset dataset(path(1));
  for (const std::int64_t node : dataset.split(0, "train")) expected[node] = 1;
  EXPECT_EQ(seen, expected);
}

TEST_P(StreamConformance, RanksShareTheEpoch_EachSeedPositionOnce) {
  for (const std::int64_t world : {2, 3}) {
    std::map<std::int64_t, std::int64_t> ranges;
    std::set<std::int64_t> steps;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      LoaderOptions o = options();
      o.deal.rank = rank;
      o.deal.world_size = world;
      o.execution.num_workers = 1;
      const std::unique_ptr<BatchStream> loader = open(o);
      loader->begin_epoch(0);
      steps.insert(loader->steps());
      while (const std::optional<Batch> batch = loader->next())
        ranges[batch->view().key().first] = batch->view().key().count;
      EXPECT_EQ(loader->next_position(), 230) << "of all ranks";
      EXPECT_EQ(loaded(*loader), expected(o));
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

TEST_P(StreamConformance, DropLast_LeavesTheIncompleteRoundOut) {
  LoaderOptions o = options();
  o.deal.drop_last = true;
  const std::unique_ptr<BatchStream> loader = open(o);
  EXPECT_EQ(loaded(*loader).size(), 14U);  // 230 / 16
  EXPECT_EQ(loaded(*loader), expected(o));
}

TEST_P(StreamConformance, EpochLeftEarlyAndStartedAgain_IsTheSameEpoch) {
  const LoaderOptions o = options();
  const std::unique_ptr<BatchStream> loader = open(o);
  for (int i = 0; i < 20; ++i) {
    loader->begin_epoch(i);
    for (int read = 0; read < i % 7; ++read) ASSERT_TRUE(loader->next());
  }
  EXPECT_EQ(loaded(*loader, {.epoch = 4}), expected(o, {.epoch = 4}));
  EXPECT_EQ(loaded(*loader, {.epoch = 4}), expected(o, {.epoch = 4}));
  EXPECT_EQ(loader->stats().worker_deaths, 0);
}

TEST_P(StreamConformance, TwoStreamsAtOnce_DoNotDisturbEachOther) {
  const LoaderOptions train = options();
  LoaderOptions valid = options(2);
  valid.split = "valid";
  const std::unique_ptr<BatchStream> a = open(train), b = open(valid);
  a->begin_epoch(0);
  b->begin_epoch(0);
  std::vector<std::string> from_a, from_b;
  for (bool more = true; more;) {
    more = false;
    if (const auto batch = a->next()) from_a.push_back(line_of(batch->view())), more = true;
    if (const auto batch = b->next()) from_b.push_back(line_of(batch->view())), more = true;
  }
  EXPECT_EQ(from_a, expected(train));
  EXPECT_EQ(from_b, expected(valid));
}

TEST_P(StreamConformance, EndOfTheEpoch_IsNothing_AlsoWhenAskedAgain) {
  const std::unique_ptr<BatchStream> loader = open(options());
  const std::size_t batches = loaded(*loader).size();
  EXPECT_EQ(static_cast<std::int64_t>(batches), loader->steps());
  EXPECT_FALSE(loader->next());
  EXPECT_FALSE(loader->next());
}

TEST_P(StreamConformance, CallerHoldsEverySlot_IsAnErrorThatSaysSo_AndGoesOnOnceOneIsDropped) {
  LoaderOptions o = options();
  o.execution.num_slots = 3;
  const std::unique_ptr<BatchStream> loader = open(o);
  loader->begin_epoch(0);
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(*loader->next());
  EXPECT_TRUE(loader->crowded());
  const std::vector<std::string> want = expected(o);
  EXPECT_EQ(error_of([&] { loader->next(); }),
            "invalid: all 3 slots of the channel hold batches that the caller still views; drop one "
            "before next(), or raise num_slots");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(line_of(held[i].view()), want[i]) << "untouched while held";
  held.erase(held.begin());
  EXPECT_EQ(line_of(loader->next()->view()), want[3]);
}

TEST_P(StreamConformance, SlotIsGivenBackWithTheLastCopy_InAnyThread) {
  LoaderOptions o = options();
  o.execution.num_slots = 1;
  const std::unique_ptr<BatchStream> loader = open(o);
  loader->begin_epoch(0);
  std::optional<Batch> first = loader->next();
  Batch copy = *first;
  first.reset();
  EXPECT_NE(error_of([&] { loader->next(); }).find("all 1 slots"), std::string::npos);
  std::thread([moved = std::move(copy)]() mutable { const Batch last = std::move(moved); }).join();
  EXPECT_TRUE(loader->next());
}

TEST_P(StreamConformance, BatchOutlivesItsStream) {
  const LoaderOptions o = options();
  std::optional<Batch> batch;
  {
    const std::unique_ptr<BatchStream> loader = open(o);
    loader->begin_epoch(0);
    batch = loader->next();
  }
  EXPECT_EQ(line_of(batch->view()), expected(o)[0]);
  EXPECT_GT(batch->times().taken, 0);
}

TEST_P(StreamConformance, TimesOfABatch_AreInOrder) {
  const std::unique_ptr<BatchStream> loader = open(options());
  loader->begin_epoch(0);
  while (const auto batch = loader->next()) {
    const BatchTimes t = batch->times();
    EXPECT_LE(t.planned, t.claimed);
    EXPECT_LE(t.claimed, t.sampled);
    EXPECT_LE(t.sampled, t.gathered);
    EXPECT_LE(t.gathered, t.published);
    EXPECT_LE(t.published, t.taken);
    EXPECT_GT(t.planned, 0);
  }
}

TEST_P(StreamConformance, Observer_HearsOfEachBatchOnceWithAllSevenTimes) {
  std::vector<BatchRecord> records;
  LoaderOptions o = options();
  o.observer = [&records](const BatchRecord& record) { records.push_back(record); };
  std::vector<BatchKey> handed_out;
  {
    const std::unique_ptr<BatchStream> loader = open(o);
    loader->begin_epoch(3);
    while (const auto batch = loader->next()) handed_out.push_back(batch->view().key());
  }
  ASSERT_EQ(records.size(), handed_out.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const BatchRecord& r = records[i];
    EXPECT_EQ(r.epoch, 3);
    EXPECT_EQ(r.first, handed_out[i].first);
    EXPECT_EQ(r.count, handed_out[i].count);
    EXPECT_LT(r.worker % 65'536, 3U) << "of its server";
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

TEST_P(StreamConformance, BatchesHeldOverTheNext_AreLeftWhenTheNextIsAskedFor) {
  std::vector<BatchRecord> records;
  LoaderOptions o = options();
  o.observer = [&records](const BatchRecord& record) { records.push_back(record); };
  const std::unique_ptr<BatchStream> loader = open(o);
  loader->begin_epoch(0);
  { const auto first = loader->next(), second = loader->next(); }
  ASSERT_EQ(records.size(), 2U);
  const BatchRecord &second = records[0], &first = records[1];  // dropped in this order
  EXPECT_EQ(first.left, second.asked);
  EXPECT_LT(first.left, first.times.released);
  EXPECT_EQ(second.left, second.times.released);
}

TEST_P(StreamConformance, ChannelOfAlmostNothing_GivesTheSameBytesWithinOneBatchMore) {
  LoaderOptions o = options();
  o.execution.channel_size = 1;
  o.execution.num_workers = 3;
  const std::unique_ptr<BatchStream> loader = open(o);
  const Dataset dataset(o.dataset);
  const NodeList seeds(dataset.split(0, "train"), {});
  const std::size_t worst = BatchMaker(dataset, seeds, o.batch).max_block_bytes(o.deal.batch_size);
  const std::vector<std::string> want = expected(o);
  loader->begin_epoch(0);
  for (const std::string& line : want) {
    const auto batch = loader->next();
    EXPECT_EQ(line_of(batch->view()), line);
    EXPECT_LE(loader->stats().channel_bytes, worst + 4096 + 4096 + 1024 * 64);
  }
  EXPECT_FALSE(loader->next());
}

TEST_P(StreamConformance, HeldBatchTakesTheMemoryOfTheNext_IsAnErrorThatSaysSo) {
  LoaderOptions o = options();
  o.execution.channel_size = 1;
  o.batch.fanouts = {-1, -1, -1};  // each batch is nearly the whole graph
  const std::unique_ptr<BatchStream> loader = open(o);
  loader->begin_epoch(0);
  std::optional<Batch> held = loader->next();
  EXPECT_NE(error_of([&] { loader->next(); }).find("drop batches before next(), or raise channel_size"),
            std::string::npos);
  held.reset();
  EXPECT_TRUE(loader->next());
}

TEST_P(StreamConformance, OneTwoAndThreePartitions_GiveTheSameBytes) {
  const std::vector<std::string> one = expected(options(1));
  for (int parts : {1, 2, 3}) {
    const std::unique_ptr<BatchStream> loader = open(options(parts));
    EXPECT_EQ(loaded(*loader), one) << parts << " partitions";
  }
}

/// Returns a copy of the dataset in which one id of a neighbour points outside the graph.
inline std::filesystem::path damaged_copy(const std::filesystem::path& from,
                                          const std::filesystem::path& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  std::fstream file(to / "part-0000/edges/node__to__node/indices.npy",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4 * 1'500, std::ios::end);
  const std::int32_t nowhere = 1'000'000;
  for (int i = 0; i < 40; ++i) file.write(reinterpret_cast<const char*>(&nowhere), sizeof(nowhere));
  return to;
}

TEST_P(StreamConformance, DamagedGraph_IsTheErrorOfTheBatchInTheCallersHands) {
  LoaderOptions o = options();
  o.dataset = damaged_copy(path(1), folder() / (std::string("damaged") + GetParam().name)).string();
  o.batch.fanouts = {-1};
  const std::unique_ptr<BatchStream> loader = open(o);
  const std::string error = error_of([&] { loaded(*loader); });
  expect_part(error, "corrupt: ");
  expect_part(error, ": edge type node__to__node has source node 1000000");
  EXPECT_EQ(error_of([&] { loader->next(); }), error)
      << "the batch cannot be made, however often it is asked for";
  EXPECT_EQ(loader->stats().worker_deaths, 0) << "one bad batch kills nobody";
}

TEST_P(StreamConformance, StartOutsideTheSeeds_IsRefusedAndTheStreamGoesOn) {
  const LoaderOptions o = options();
  const std::unique_ptr<BatchStream> loader = open(o);
  EXPECT_NE(error_of([&] { loader->next(); }).find("begin_epoch"), std::string::npos);
  EXPECT_NE(error_of([&] { loader->begin_epoch(0, 231); }).find("start 231"), std::string::npos);
  EXPECT_NE(error_of([&] { loader->begin_epoch(-1); }).find("epoch is -1"), std::string::npos);
  EXPECT_EQ(loaded(*loader), expected(o));
}

TEST_P(StreamConformance, EveryBatchWithNaN_IsRefusedWhereAsked) {
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 50, .num_edges = 400, .x_width = 4, .num_train = 40});
  graph.x[3] = std::numeric_limits<float>::quiet_NaN();
  testing::write_tiny_dataset(folder() / "nan", graph);
  LoaderOptions o = options();
  o.dataset = (folder() / "nan").string();
  o.batch.fanouts = {-1, -1, -1};
  o.execution.check_finite = true;
  EXPECT_NE(error_of([&] { loaded(*open(o)); }).find("NaN"), std::string::npos);
  o.execution.check_finite = false;
  EXPECT_EQ(loaded(*open(o)), expected(o));
}

TEST_P(StreamConformance, SpecDealAndMetadata_AreToldByTheStream) {
  LoaderOptions o = options(2);
  o.deal.world_size = 3;
  const std::unique_ptr<BatchStream> stream = open(o);
  const BatchSpec& spec = stream->spec();
  EXPECT_EQ(spec.fingerprint, Dataset(o.dataset).meta().fingerprint);
  EXPECT_EQ(spec.batch, o.batch);
  EXPECT_EQ(spec.seeds, (SeedSpec{.node_type = "node", .split = "train"}));
  EXPECT_EQ(spec.seed, 11U);
  EXPECT_EQ(stream->deal().world_size, 3);
  EXPECT_EQ(stream->meta().node_types[0].count, 400);
  o.deal.world_size = 2;
  o.dataset = path(3).string();
  EXPECT_EQ(open(o)->spec(), spec) << "neither the cut nor the ranks decide a byte";
}

TEST_P(StreamConformance, AllThatMakesBatchesIsKilledInAnEpoch_TheBytesStay) {
  if (GetParam().kill_makers == nullptr)
    GTEST_SKIP() << "the caller makes them: a crash there ends the caller";
  const LoaderOptions o = options();
  const std::unique_ptr<BatchStream> stream = open(o);
  stream->begin_epoch(2);
  std::vector<std::string> got;
  while (const std::optional<Batch> batch = stream->next()) {
    got.push_back(line_of(batch->view()));
    if (got.size() % 5 == 1) GetParam().kill_makers(*stream);
  }
  EXPECT_EQ(got, expected(o, {.epoch = 2}));
}

/// Whoever makes the batches hears of a slot that another thread gives back while next() runs.
TEST_P(StreamConformance, BatchesDroppedByAnotherThreadWhileNextIsAsked_StopNothing) {
  LoaderOptions o = options();
  o.execution.num_slots = 2;
  o.execution.batch_deadline = std::chrono::seconds(20);
  const std::unique_ptr<BatchStream> stream = open(o);
  for (int epoch = 0; epoch < 20; ++epoch) {
    std::mutex mutex;
    std::vector<Batch> held;
    std::atomic<bool> done{false};
    std::jthread dropper([&] {
      while (!done) {
        const std::lock_guard lock(mutex);
        held.clear();
      }
    });
    std::vector<std::string> got;
    stream->begin_epoch(epoch);
    for (;;) {
      std::optional<Batch> batch;
      const std::string error = error_of([&] { batch = stream->next(); });
      if (error.starts_with("invalid: all 2 slots")) continue;  // not dropped yet
      ASSERT_EQ(error, "no error");
      if (!batch) break;
      got.push_back(line_of(batch->view()));
      const std::lock_guard lock(mutex);
      held.push_back(std::move(*batch));
    }
    done = true;
    EXPECT_EQ(got, expected(o, {.epoch = epoch}));
  }
}

}  // namespace hopfeed
