// Workers of a server that die: a job whose batches kill them is refused with the cause, others go on.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/json_text.h"
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

/// Of the plugin's sampler, which kills where `options` say so.
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
    EXPECT_NE(failed.refusal().text.find("3 sampling workers in a row died of its batches"),
              std::string::npos)
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
  EXPECT_TRUE(log_->has("event=job_refused"));
}

TEST_F(ServerPool, JobThatTakesLongToOpen_IsOpenedAndHoldsUpNoOther) {
  ServerOptions options = server_options();
  options.plugins = {testing::program("server_deadly_sampler.so")};
  Server server(options);
  RawClient slow(server.address()), other(server.address());
  const wire::Open open_slowly{.job = 1, .spec = deadly(slow.offer(), spec(), "slow"), .batch_size = 16};
  slow.send(FrameType::kOpen, 1, wire::to_bytes(open_slowly));
  slow.send(FrameType::kPing, 2);
  while (!log_->has("event=connected")) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(open(other).num_seeds, kSeeds);
  EXPECT_FALSE(log_->has("sampler=deadly")) << "the other one was opened after it";
  EXPECT_EQ(slow.next().type(), FrameType::kOpened);  // no sign of life of it was seen for over 10 s
  EXPECT_EQ(slow.next().type(), FrameType::kPong);
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
