// The jobs and given seeds of a server by themselves.
#include "server_client_mode/server/job_table.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/base/sha256.h"
#include "core/seeds/node_set.h"
#include "tests/server_client_mode/server_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class Jobs : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    table_.emplace(datasets_,
                   JobTableOptions{.largest_block = std::size_t{64} << 20, .max_jobs = 3, .kept = 10s});
  }
  void TearDown() override {
    table_.reset();
    ServerTest::TearDown();
  }
  const ServedDatasets datasets_{{path(1).string()}};
  std::optional<JobTable> table_;

  static wire::Open job(std::uint64_t seed, std::int64_t batch_size = kBatchSize) {
    wire::Open open{.job = 1, .spec = spec(), .batch_size = batch_size};
    open.spec.seed = seed;
    return open;
  }
};

TEST_F(Jobs, EqualSpecs_AreOneJobWhateverTheBatchSize) {
  const JobTable::Opened one = table_->open(job(1), nullptr), same = table_->open(job(1, 32), nullptr),
                         other = table_->open(job(2), nullptr);
  EXPECT_EQ(one.job, same.job);
  EXPECT_NE(one.job, other.job);
  EXPECT_LT(one.answer.worst_block, same.answer.worst_block);
  wire::Open finite = job(1);
  finite.check_finite = true;
  EXPECT_NE(table_->open(finite, nullptr).job, one.job);
}

TEST_F(Jobs, WorkersFindAJobAsLongAsItIsThere) {
  const std::uint32_t number = table_->open(job(1), nullptr).job;
  ASSERT_TRUE(table_->find(number).description);
  EXPECT_FALSE(table_->find(number).seeds);
  EXPECT_FALSE(table_->find(number + 1).description);
  table_->close(number);
  EXPECT_TRUE(table_->expire(JobTable::Clock::now()).empty());  // clients come back
  EXPECT_EQ(table_->open(job(1), nullptr).job, number);
  EXPECT_TRUE(table_->expire(JobTable::Clock::now() + 1h).empty());  // it is open
  table_->close(number);
  EXPECT_EQ(table_->expire(JobTable::Clock::now() + 1h), std::vector<std::uint32_t>{number});
  EXPECT_FALSE(table_->find(number).description);
}

TEST_F(Jobs, MoreThanItTakes_AreRefusedUnlessOneIsOpenForNobody) {
  const std::uint32_t first = table_->open(job(1), nullptr).job;
  table_->open(job(2), nullptr);
  table_->open(job(3), nullptr);
  EXPECT_NE(error_of([&] { table_->open(job(4), nullptr); }).find("3 jobs open, as many as it takes"),
            std::string::npos);
  table_->close(first);
  EXPECT_EQ(error_of([&] { table_->open(job(4), nullptr); }), "no error");
  EXPECT_EQ(table_->expire(), std::vector<std::uint32_t>{first});
  EXPECT_EQ(table_->size(), 3U);
}

TEST_F(Jobs, RefusedJob_StaysRefusedWithTheCause) {
  const std::uint32_t number = table_->open(job(1), nullptr).job;
  EXPECT_FALSE(table_->why_refused(number));
  table_->refuse(number, Error(ErrorCode::kPeerDied, "it kills"));
  ASSERT_TRUE(table_->why_refused(number));
  EXPECT_EQ(error_of([&] { table_->open(job(1), nullptr); }), "peer died: it kills");
  EXPECT_EQ(error_of([&] { table_->open(job(2), nullptr); }), "no error");
}

TEST_F(Jobs, FailedOpening_LeavesNoJobBehind) {
  wire::Open wrong = job(1);
  wrong.spec.seeds.split = "none";
  EXPECT_NE(error_of([&] { table_->open(wrong, nullptr); }), "no error");
  wrong = job(1, 0);
  EXPECT_NE(error_of([&] { table_->open(wrong, nullptr); }).find("batch_size is 0"), std::string::npos);
  EXPECT_EQ(table_->size(), 0U);
}

TEST_F(Jobs, GivenSeedsThatCannotBe_AreTheClientsErrorInALine) {
  SeedStore store({.max_bytes = 10'000, .kept = 10s});
  const auto refused = [&](const std::vector<std::int64_t>& words) {
    const std::span<const std::byte> packed = std::as_bytes(std::span(words));
    const std::shared_ptr<StoredSeeds> seeds = store.make(packed.size());
    store.grow(*seeds, packed.size());
    std::ranges::copy(packed, seeds->bytes().begin());
    wire::Open open = job(1);
    open.spec.seeds = {.node_type = "node", .split = {}, .sha256 = sha256(packed)};
    return error_of([&] { table_->open(open, seeds); });
  };
  EXPECT_NE(
      refused({2, 0, 0, 0, 1, std::int64_t{1} << 40}).find("seed 1099511627776 (position 1) is no node"),
      std::string::npos);
  EXPECT_NE(refused({2, 1, 0, 0, 1, 2, 3}).find("num_times is 1 for 2 seeds"), std::string::npos);
  EXPECT_EQ(table_->size(), 0U);
  EXPECT_EQ(refused({2, 0, 0, 0, 1, 2}), "no error");
}

class Seeds : public ::testing::Test {
 protected:
  static std::shared_ptr<StoredSeeds> seeds(SeedStore& store, std::size_t bytes, int fill) {
    std::shared_ptr<StoredSeeds> made = store.make(bytes);
    store.grow(*made, bytes);
    std::ranges::fill(made->bytes(), static_cast<std::byte>(fill));
    return made;
  }
};

TEST_F(Seeds, AreKeptByTheirHashAndCountedOnce) {
  SeedStore store({.max_bytes = 1'000, .kept = 10s});
  const std::string hash = store.keep(seeds(store, 300, 1));
  EXPECT_EQ(hash, sha256(std::vector<std::byte>(300, std::byte{1})));
  EXPECT_EQ(store.keep(seeds(store, 300, 1)), hash);
  EXPECT_EQ(store.bytes(), 300U);
  ASSERT_TRUE(store.find(hash));
  EXPECT_EQ(store.find(hash)->bytes().size(), 300U);
  EXPECT_FALSE(store.find(std::string(64, '0')));
}

TEST_F(Seeds, BeyondTheBound_UnusedOnesGoAndUsedOnesStay) {
  SeedStore store({.max_bytes = 1'000, .kept = 10s});
  const std::string first = store.keep(seeds(store, 400, 1)), second = store.keep(seeds(store, 400, 2));
  std::shared_ptr<const StoredSeeds> used = store.find(first);
  const std::string third = store.keep(seeds(store, 500, 3));
  EXPECT_TRUE(store.find(first));
  EXPECT_FALSE(store.find(second));
  EXPECT_TRUE(store.find(third));
  const std::shared_ptr<const StoredSeeds> both = store.find(third);
  const std::string error = error_of([&] { seeds(store, 101, 4); });
  EXPECT_NE(error.find("keeps at most 1000 bytes"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { seeds(store, 100, 4); }), "no error");
  EXPECT_EQ(store.bytes(), 900U);
}

TEST_F(Seeds, OneUpload_TakesNoMoreThanHasComeOfItAndNeverMoreThanHalf) {
  SeedStore store({.max_bytes = 1'000, .kept = 10s});
  EXPECT_NE(error_of([&] { store.make(501); }).find("of one client the server takes at most 500 bytes"),
            std::string::npos);
  const std::shared_ptr<StoredSeeds> one = store.make(500), two = store.make(500), three = store.make(500);
  EXPECT_EQ(store.bytes(), 0U);
  struct stat status {};
  ASSERT_EQ(fstat(one->fd()->get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);  // no memory behind it
  store.grow(*one, 100);
  EXPECT_EQ(store.bytes(), 100U);
  store.grow(*two, 500);
  EXPECT_NE(error_of([&] { store.grow(*three, 401); }), "no error");
  EXPECT_EQ(store.bytes(), 600U);
  store.grow(*one, 500);
  EXPECT_EQ(store.bytes(), 1'000U);
}

TEST_F(Seeds, ThatNobodyUses_GoAfterATime) {
  SeedStore store({.max_bytes = 1'000, .kept = 10s});
  const std::string unused = store.keep(seeds(store, 100, 1)), hash = store.keep(seeds(store, 100, 2));
  const std::shared_ptr<const StoredSeeds> used = store.find(hash);
  const SeedStore::Clock::time_point now = SeedStore::Clock::now();
  store.expire(now + 9s);
  EXPECT_EQ(store.bytes(), 200U);
  store.expire(now + 1h);
  EXPECT_EQ(store.bytes(), 100U);
  EXPECT_FALSE(store.find(unused));
  EXPECT_TRUE(store.find(hash));
}

}  // namespace
}  // namespace hopfeed
