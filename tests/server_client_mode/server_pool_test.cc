// Workers of a server that die: a job whose batches kill them is refused with the cause, others go on.
#include <signal.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/json_text.h"
#include "core/base/sha256.h"
#include "core/seeds/node_set.h"
#include "tests/server_client_mode/server_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerPool : public ServerTestWithin<240> {};

TEST_F(ServerPool, WorkersKilledAgainAndAgain_AllBatchesComeAndAreTheSame) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  std::set<std::uint64_t> got;
  constexpr std::uint64_t kBatches = 600;
  std::uint64_t asked = 0;
  for (; asked < 20; ++asked) ask(client, asked);
  std::int64_t deaths = 0;
  while (got.size() < kBatches) {
    const RawClient::Frame frame = client.next();
    ASSERT_EQ(frame.type(), FrameType::kBlock) << frame.refusal().text;
    ASSERT_TRUE(got.insert(frame.header.request).second);
    if (got.size() % 97 == 0) {
      EXPECT_EQ(line(frame), expected_line(frame.header.request));
    }
    if (asked < kBatches) ask(client, asked++);
    if (got.size() % 40 != 0) continue;
    for (int pid : server.worker_pids()) {
      if (::kill(pid, SIGKILL) == 0) ++deaths;
      break;
    }
  }
  EXPECT_GT(deaths, 5);
  while (parse_json(server.status_json())["worker_deaths"] == 0) std::this_thread::sleep_for(1ms);
}

/// A spec with the plugin's sampler, which kills where `options` say so.
BatchSpec deadly(const wire::Offer& offer, const BatchSpec& like, const std::string& options) {
  BatchSpec spec = like;
  spec.batch = BatchOptions{};
  spec.batch.sampler = "deadly";
  spec.batch.sampler_options = options;
  for (const wire::Offer::Sampler& sampler : offer.samplers) spec.sampler_sha256 = sampler.sha256;
  return spec;
}

// A batch of this job kills the worker that samples it; the other jobs' batches are made beside it.
TEST_F(ServerPool, JobWhoseBatchesKillWorkers_IsRefusedWithTheCauseAndOthersGoOn) {
  ServerOptions options = server_options();
  options.max_worker_deaths = 2;
  options.plugins = {testing::program("server_deadly_sampler.so")};
  Server server(options);
  RawClient good(server.address(), nullptr, "", "good"), bad(server.address(), nullptr, "", "bad");
  const BatchSpec kills = deadly(bad.offer(), spec(), "kill"), harmless = deadly(bad.offer(), spec(), "");
  ASSERT_EQ(bad.offer().samplers.size(), 1U);
  open(good);
  open(good, 2, harmless);
  open(bad, 1, kills);
  for (std::uint64_t number = 0; number < 6; ++number) {
    ask(good, number, kRoom, number % 2 == 0 ? 1 : 2);
    ask(bad, number);
  }
  for (int i = 0; i < 6; ++i) {
    const RawClient::Frame failed = bad.next();
    ASSERT_EQ(failed.type(), FrameType::kFailed);
    EXPECT_EQ(failed.refusal().code, ErrorCode::kPeerDied);
    EXPECT_NE(failed.refusal().text.find(" sampling workers died of "), std::string::npos)
        << failed.refusal().text;
    EXPECT_NE(failed.refusal().text.find("was killed by signal 9"), std::string::npos);
  }
  for (int i = 0; i < 6; ++i) {
    const RawClient::Frame block = good.next();
    ASSERT_EQ(block.type(), FrameType::kBlock);
    if (block.header.request % 2 == 0) {
      EXPECT_EQ(line(block), expected_line(block.header.request));
    }
  }
  ask(bad, 9);
  EXPECT_EQ(bad.next().type(), FrameType::kFailed);  // at once, without another death
  RawClient again(server.address());
  const std::string refused = error_of([&] { open(again, 1, kills); });
  EXPECT_NE(refused.find("died of its batches"), std::string::npos) << refused;
  log_->wait_for("event=job_refused");
}

TEST_F(ServerPool, JobThatTakesLongToOpen_IsOpenedAndHoldsUpNoOther) {
  ServerOptions options = server_options();
  options.plugins = {testing::program("server_deadly_sampler.so")};
  Server server(options);
  RawClient slow(server.address()), other(server.address());
  const wire::Open open_slowly{.job = 1, .spec = deadly(slow.offer(), spec(), "slow"), .batch_size = 16};
  slow.send(FrameType::kOpen, 1, wire::to_bytes(open_slowly));
  slow.send(FrameType::kPing, 2);
  log_->wait_for("event=connected");
  EXPECT_EQ(open(other).num_seeds, kSeeds);
  EXPECT_FALSE(log_->has("sampler=deadly")) << "the other one was opened after it";
  EXPECT_EQ(slow.next().type(), FrameType::kOpened);  // no sign of life of it was seen for over 10 s
  EXPECT_EQ(slow.next().type(), FrameType::kPong);
}

// Batch 2 of one job kills whoever samples it, and the others are good.
TEST_F(ServerPool, BatchThatKillsWorkers_IsGivenUpAndAfterAFewItsJobIsRefused) {
  ServerOptions options = server_options();
  options.max_worker_deaths = 2;
  options.plugins = {testing::program("server_deadly_sampler.so")};
  Server server(options);
  RawClient client(server.address());
  open(client, 1, deadly(client.offer(), spec(), "kill 32"));
  const auto deaths = [&] { return parse_json(server.status_json())["worker_deaths"].get<int>(); };
  for (std::uint64_t number = 0; number < 8; ++number) ask(client, number);
  for (int i = 0; i < 8; ++i) {
    const RawClient::Frame frame = client.next();
    ASSERT_EQ(frame.type(), frame.header.request == 2 ? FrameType::kFailed : FrameType::kBlock)
        << frame.header.request;
    if (frame.header.request != 2) continue;
    EXPECT_EQ(frame.refusal().code, ErrorCode::kPeerDied);
    EXPECT_NE(
        frame.refusal().text.find("2 sampling workers died of this batch (job 1, epoch 0, seeds 32 to 47)"),
        std::string::npos)
        << frame.refusal().text;
  }
  // Whatever is made between: each time that it is asked for costs a worker, and at the sixth it is enough.
  std::string said;
  for (int again = 3; again <= 6; ++again) {
    ask(client, 0);
    ASSERT_EQ(client.next().type(), FrameType::kBlock);
    ask(client, 2);
    const RawClient::Frame failed = client.next();
    ASSERT_EQ(failed.type(), FrameType::kFailed);
    said = failed.refusal().text;
  }
  EXPECT_NE(said.find("the job is refused: 6 sampling workers died of its batches"), std::string::npos)
      << said;
  ask(client, 0);
  EXPECT_EQ(client.next().type(), FrameType::kFailed);
  while (deaths() < 6) client.sleep(1ms);
  EXPECT_EQ(deaths(), 6);
}

// One worker for both: what the one client's batches have grown to is no loss of the other's.
TEST_F(ServerPool, ABatchThatNeedsMoreThanMaxBatchMemory_IsRefusedAndOtherClientsGoOn) {
  ServerOptions options = server_options();
  options.num_workers = 1;
  options.max_batch_memory = 256 << 10;
  Server server(options);
  RawClient good(server.address(), nullptr, "", "good"), bad(server.address(), nullptr, "", "bad");
  BatchSpec everything = spec(std::vector<std::int64_t>(16, -1));
  everything.batch.disjoint = true;
  open(good);
  open(bad, 1, everything);
  const int worker = server.worker_pids().at(0);
  for (std::uint64_t number = 0; number < 8; ++number) {
    ask(bad, number);
    const RawClient::Frame failed = bad.next();
    ASSERT_EQ(failed.type(), FrameType::kFailed);
    EXPECT_EQ(failed.refusal().code, ErrorCode::kNoSpace);
    EXPECT_NE(failed.refusal().text.find("262144 bytes is the most"), std::string::npos)
        << failed.refusal().text;
    EXPECT_NE(failed.refusal().text.find("--max-batch-memory"), std::string::npos);
    ask(good, number);
    const RawClient::Frame block = good.next();
    ASSERT_EQ(block.type(), FrameType::kBlock) << block.refusal().text;
    EXPECT_EQ(line(block), expected_line(number));
  }
  EXPECT_EQ(server.worker_pids().at(0), worker) << "nobody died of it";
}

/// Whether something of this name is mapped by the process.
bool maps(int pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return all.find(name) != std::string::npos;
}

TEST_F(ServerPool, JobThatIsGone_WorkersLetGoOfItsSeedsAndDataset) {
  ServerOptions options = server_options();
  options.num_workers = 1;
  options.seeds_kept = 1ms;
  Server server(options);
  RawClient client(server.address());
  const Dataset dataset(path(1));
  const NodeSet seeds(dataset, 0, NodeInput{.ids = std::vector<std::int64_t>(20'000, 3)});
  const std::vector<std::byte> packed = seeds.pack();
  BatchSpec wanted = spec();
  wanted.seeds = {.node_type = "node", .split = {}, .sha256 = sha256(packed)};
  const int worker = server.worker_pids().at(0);
  // Kept so shortly, they may go before they are asked for.
  while (error_of([&] { open(client, 1, wanted); }) != "no error")
    ASSERT_EQ(client.ask(FrameType::kSeeds, 2, packed).type(), FrameType::kSeedsKept);
  ask(client, 0);
  ASSERT_EQ(client.next().type(), FrameType::kBlock);
  EXPECT_TRUE(maps(worker, "hopfeed-seeds"));
  EXPECT_TRUE(maps(worker, path(1).string()));
  client.send(FrameType::kCloseJob, 0, wire::to_bytes(std::uint64_t{1}));
  while (maps(worker, "hopfeed-seeds") || maps(worker, path(1).string())) client.sleep(50ms);
  open(client);
  ask(client, 0);
  EXPECT_EQ(line(client.next()), expected_line(0));
  EXPECT_EQ(server.worker_pids().at(0), worker);
}

TEST_F(ServerPool, DatasetChangedOnDisk_WorkersThatComeLaterSaySoAndTheServerStays) {
  const testing::TempFolder scratch;
  const std::filesystem::path folder = scratch.path() / "data";
  std::filesystem::copy(path(1), folder, std::filesystem::copy_options::recursive);
  ServerOptions options = server_options();
  options.datasets = {folder.string()};
  options.num_workers = 1;
  Server server(options);
  RawClient client(server.address());
  open(client);
  testing::TinyGraph other = testing::random_graph({.num_nodes = 300, .num_edges = 3'000, .seed = 9});
  testing::write_tiny_dataset(folder, other);
  ask(client, 0);  // its worker opens the folder only now
  const RawClient::Frame failed = client.next();
  ASSERT_EQ(failed.type(), FrameType::kFailed);
  EXPECT_NE(failed.refusal().text.find("was replaced while"), std::string::npos) << failed.refusal().text;
  EXPECT_EQ(client.ask(FrameType::kGetStatus, 3).type(), FrameType::kStatus);
}

TEST_F(ServerPool, ProgramThatIsNoWorker_IsAnErrorAtTheStart) {
  ServerOptions options = server_options();
  options.worker_program = "/bin/true";
  const std::string error = error_of([&] { Server server(options); });
  EXPECT_NE(error.find("left with exit code 0"), std::string::npos) << error;
}

TEST_F(ServerPool, BatchesForAGpuOfTheServer_AreRefused) {
  ServerOptions options = server_options();
  options.gpu.pin_slots = true;
  std::string error = error_of([&] { options.validate(); });
  EXPECT_NE(error.find("device_batches and pin_slots are of batches for a GPU of this machine"),
            std::string::npos)
      << error;
  options.gpu = {.graph_mode = GraphMode::kUva, .device_batches = true};
  EXPECT_EQ(error_of([&] { options.validate(); }), error);
  options.gpu = {.graph_mode = GraphMode::kUva, .gpu_cache = CacheSize{.ratio = 0.5}};
  error = error_of([&] { options.validate(); });
  EXPECT_NE(error.find("gpu_cache is of batches that stay in a GPU's memory"), std::string::npos) << error;
  options.gpu = {.graph_mode = GraphMode::kUva};
  EXPECT_NO_THROW(options.validate());
}

TEST_F(ServerPool, ManyJobs_AreServedByAllWorkersWithTheirOwnBytes) {
  Server server(server_options());
  RawClient client(server.address());
  std::vector<BatchSpec> specs;
  for (std::uint32_t job = 0; job < 20; ++job) {
    BatchSpec one = spec({static_cast<std::int64_t>(1 + job % 5), 2});
    one.seed = job;
    specs.push_back(one);
    open(client, job, one);
  }
  for (std::uint64_t number = 0; number < 200; ++number)
    ask(client, number, kRoom, static_cast<std::uint32_t>(number % 20));
  for (int i = 0; i < 200; ++i) {
    const RawClient::Frame block = client.next();
    ASSERT_EQ(block.type(), FrameType::kBlock);
    if (i % 7 != 0) continue;
    EXPECT_EQ(line(block), expected_line(block.header.request, specs[block.header.request % 20]));
  }
}

}  // namespace
}  // namespace hopfeed
