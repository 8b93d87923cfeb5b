// Input that the loader refuses: one line that names the thing and says what to do, and nothing left behind.
#include <fstream>

#include "core/base/limits.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

class BadInput : public LoaderTestWithin<> {
 protected:
  /// The error of a loader with these options; one line of it.
  static std::string refused(const std::function<void(LoaderOptions&)>& change) {
    LoaderOptions o = options();
    change(o);
    const std::string error = error_of([&] { Loader loader(o); });
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  }
  static void expect(const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
};

TEST_F(BadInput, OptionsOutOfRange_AreNamed) {
  expect(refused([](auto& o) { o.batch.fanouts = {4, -2}; }), "invalid: fanout -2");
  expect(refused([](auto& o) { o.batch.fanouts = {70'000}; }), "invalid: fanout 70000");
  expect(refused([](auto& o) { o.deal.batch_size = 0; }), "invalid: batch_size is 0");
  expect(refused([](auto& o) { o.execution.num_workers = -1; }), "invalid: num_workers is -1");
  expect(refused([](auto& o) { o.execution.num_workers = 257; }), "invalid: num_workers is 257");
  expect(refused([](auto& o) { o.execution.num_slots = 1'025; }), "invalid: num_slots is 1025");
  expect(refused([](auto& o) { o.deal.rank = 2, o.deal.world_size = 2; }), "invalid: rank is 2");
  expect(refused([](auto& o) { o.deal.world_size = 0; }), "invalid: world_size is 0");
  expect(refused([](auto& o) { o.execution.cores = {-1}; }), "invalid: core -1");
  expect(refused([](auto& o) { o.execution.cores = {1'023}; }), "core 1023");
  using std::chrono::milliseconds;
  expect(refused([](auto& o) { o.execution.batch_deadline = milliseconds(0); }),
         "invalid: batch_deadline is 0 ms; choose 1 to 31536000000 (a year)");
  expect(refused([](auto& o) { o.execution.batch_deadline = milliseconds(kMaxDeadlineMs + 1); }),
         "invalid: batch_deadline is 31536000001 ms");
  expect(refused([](auto& o) { o.execution.start_deadline = milliseconds::max(); }),
         "invalid: start_deadline is 9223372036854775807 ms");
}

// Each of the trees may reach the whole graph.
TEST_F(BadInput, ABatchThatNeedsMoreThanMaxBatchMemory_IsAnErrorInItsPlace) {
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options();
    o.execution.num_workers = workers;
    o.execution.max_batch_memory = 1 << 20;
    o.batch.fanouts.assign(16, -1);
    o.batch.disjoint = true;
    o.deal.batch_size = 115;
    Loader loader(o);
    loader.begin_epoch(0);
    for (int again = 0; again < 2; ++again) {
      const std::string error = error_of([&] { loader.next(); });
      expect(error, "no space: a batch needs ");
      expect(error, " and 1048576 bytes is the most; lower batch_size or fanouts, or raise max_batch_memory");
    }
    o.batch.fanouts = {4, 3};  // which it has enough for
    Loader another(o);
    another.begin_epoch(0);
    EXPECT_TRUE(another.next());
  }
}

TEST_F(BadInput, OptionsThatWouldNotBeRead_AreNamed) {
  expect(refused([](auto& o) {
           o.seeds = {{3, 4}}, o.split = "valid";
         }),
         "invalid: seeds are given, so split 'valid' is not read");
  expect(refused([](auto& o) {
           o.seeds = {{3, 4}}, o.seed_weights = {1, 2}, o.shuffle = false;
         }),
         "invalid: seeds with weights are drawn anew in each epoch");
  expect(refused([](auto& o) { o.batch.sampler = BatchOptions::kWalkSampler, o.batch.walk.length = 2; }),
         "invalid: sampler 'walk' knows no fanouts");
  const auto induced_walks = [](std::vector<std::int64_t> fanouts) {
    return [fanouts](auto& o) {
      o.batch = {.sampler = BatchOptions::kWalkSampler, .walk = {.length = 2}, .fanouts = fanouts};
      o.batch.subgraph = Subgraph::kInduced;
    };
  };
  expect(refused(induced_walks({4, -1})),
         "invalid: sampler 'walk' draws nothing by fanouts; of an induced subgraph");
  expect(refused(induced_walks({-1, -1})), "no error");  // two layers
}

TEST_F(BadInput, ThingsThatDoNotExist_AreNamed) {
  expect(refused([](auto& o) { o.dataset = "/no/such/folder"; }), "/no/such/folder");
  expect(refused([](auto& o) { o.split = "holiday"; }), "holiday");
  expect(refused([](auto& o) { o.node_type = "author"; }), "author");
  expect(refused([](auto& o) { o.node_type = "node,author"; }),
         "invalid: the seeds are of several node types ('node,author')");
  expect(refused([](auto& o) { o.batch.attrs = std::vector<std::string>{"z"}; }), "'z'");
  expect(refused([](auto& o) { o.execution.worker_program = "/no/such/program"; }),
         "not found: the worker program /no/such/program");
}

// F30
TEST_F(BadInput, SeedsOutOfRange_AreNamed) {
  EXPECT_EQ(refused([](auto& o) {
              o.seeds = {{3, 400}};
            }),
            "invalid: seed 400 (position 1) is no node: type 'node' has ids 0 to 399");
  expect(refused([](auto& o) { o.seeds = {{-1}}; }), "seed -1 (position 0)");
  expect(refused([](auto& o) { o.seeds = std::vector<std::int64_t>{}; }), "invalid:");
}

TEST_F(BadInput, MoreTrainersThanSeeds_IsRefused) {
  expect(refused([](auto& o) {
           o.seeds = {{1, 2, 3}}, o.deal.world_size = 4;
         }),
         "3 seeds from position 0 on cannot be dealt to 4 trainers");
}

TEST_F(BadInput, DropLastThatDropsAll_IsRefusedUnlessEpochsMayBeEmpty) {
  expect(refused([](auto& o) { o.deal.drop_last = true, o.deal.batch_size = 231; }),
         "drop_last leaves no batch: 230 seeds are less than a round of 1 batches of 231");
  expect(refused([](auto& o) { o.deal.drop_last = true, o.deal.batch_size = 116, o.deal.world_size = 2; }),
         "drop_last leaves no batch");
  LoaderOptions o = options();
  o.deal.drop_last = true, o.deal.batch_size = 231;
  o.empty_epochs = EmptyEpochs::kAllowed;
  Loader loader(o);
  for (const std::int64_t epoch : {0, 1}) {
    loader.begin_epoch(epoch);
    EXPECT_EQ(loader.steps(), 0);
    EXPECT_FALSE(loader.next());
  }
}

// F7
TEST_F(BadInput, TooLittleMemory_IsOneLineWithNeededAvailableAndKnob) {
  const std::string error = refused([](auto& o) { o.execution.channel_size = std::size_t{1} << 44; });
  expect(error, "no space: the loader (channel_size 16384 GiB, one worst-case batch of ");
  expect(error, " are available (limit: ");
  expect(error, "lower channel_size, num_workers, batch_size or fanouts");
}

TEST_F(BadInput, DatasetReplacedUnderTheLoader_IsNoticedByTheNextWorker) {
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .num_train = 230, .seed = 2});
  const std::filesystem::path folder_of_both = folder() / "replaced";
  std::filesystem::copy(path(1), folder_of_both, std::filesystem::copy_options::recursive);
  LoaderOptions o = options();
  o.dataset = folder_of_both.string();
  o.execution.num_workers = 1;
  o.execution.max_worker_restarts = 2;
  Loader loader(o);
  testing::write_tiny_dataset(folder_of_both, graph);
  ::kill(loader.worker_pids().at(0), SIGKILL);
  loader.begin_epoch(0);
  expect(error_of([&] {
           while (loader.next()) {
           }
         }),
         "was replaced while it was in use; start the loader, or the server, again");
}

}  // namespace
}  // namespace hopfeed
