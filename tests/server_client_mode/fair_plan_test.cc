// Who is served next: the arithmetic of FairPlan, driven by workers of a simulation, whose seconds are what
// the test says.
#include "server_client_mode/server/fair_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <vector>

namespace hopfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Workers that take what is planned, lowest sequence first, and clients that take each block at once or
/// never.
class Simulation {
 public:
  struct Job {
    double seconds = 0.01;
    std::size_t bytes = kMiB;
  };
  explicit Simulation(FairPlanOptions options)
      : plan_((
            options.clock = [this] { return now_; }, options)),
        workers_(options.workers) {}

  FairPlan& plan() { return plan_; }
  void join(std::uint64_t client, Job job, bool takes = true) {
    plan_.join(client);
    jobs_[static_cast<std::uint32_t>(client)] = job;
    if (!takes) frozen_.insert(client);
  }
  /// Keeps so many requests of each client outstanding, until `until`.
  void run(double until, const std::vector<std::uint64_t>& clients, int outstanding) {
    for (;;) {
      for (std::uint64_t client : clients) {
        const FairPlan::ClientLoad load = plan_.load(client);
        for (auto has = load.waiting + load.under_way + load.blocks; has < outstanding; ++has) ask(client);
      }
      while (const auto batch = plan_.next()) planned_.push(*batch);
      while (static_cast<std::int64_t>(busy_.size()) < workers_ && !planned_.empty()) {
        const PlannedBatch batch = planned_.front();
        planned_.pop();
        busy_.push({.end = now_ + jobs_[batch.job].seconds, .batch = batch});
      }
      if (busy_.empty() || busy_.top().end > until) {
        now_ = until;
        return;
      }
      finish();
    }
  }
  void ask(std::uint64_t client) {
    asked_[next_request_] = now_;
    plan_.push(client, next_request_++, {.job = static_cast<std::uint32_t>(client)});
  }
  /// What its batches take from here on.
  void takes(std::uint64_t client, double seconds) {
    jobs_.at(static_cast<std::uint32_t>(client)).seconds = seconds;
  }
  double seconds_of(std::uint64_t client) const { return plan_.load(client).worker_seconds; }
  double longest_wait_of(std::uint64_t client) const { return longest_waits_.at(client); }

 private:
  struct Busy {
    double end = 0;
    PlannedBatch batch;
    bool operator<(const Busy& other) const { return end > other.end; }
  };
  void finish() {
    const Busy done = busy_.top();
    busy_.pop();
    now_ = done.end;
    const Job& job = jobs_[done.batch.job];
    const auto whose =
        plan_.made({.sequence = done.batch.sequence, .seconds = job.seconds, .bytes = job.bytes});
    if (!whose) return;
    double& longest = longest_waits_[whose->client];
    longest = std::max(longest, now_ - asked_.extract(whose->request).mapped());
    if (!frozen_.contains(whose->client)) plan_.freed(whose->client, job.bytes);
  }

  double now_ = 0;
  FairPlan plan_;
  const std::int64_t workers_;
  std::map<std::uint32_t, Job> jobs_;
  std::set<std::uint64_t> frozen_;
  std::map<std::uint64_t, double> asked_;          // when, by request
  std::map<std::uint64_t, double> longest_waits_;  // by client
  std::queue<PlannedBatch> planned_;
  std::priority_queue<Busy> busy_;
  std::uint64_t next_request_ = 0;
};

/// What batches of this job take is known from here on.
void tell_cost(FairPlan& plan, std::uint32_t job, double seconds = 0.001, std::size_t bytes = 1) {
  constexpr std::uint64_t kClient = 1'000;
  plan.join(kClient);
  plan.push(kClient, 0, {.job = job});
  plan.made({.sequence = plan.next()->sequence, .seconds = seconds, .bytes = bytes});
  plan.leave(kClient);
}

FairPlanOptions two_workers() { return {.workers = 2, .slots = 64, .bytes = 64 * kMiB}; }

TEST(FairPlan, RequestsOfOneClient_ComeByTheirNumbersWhateverTheOrderTheyCameIn) {
  FairPlan plan(two_workers());
  tell_cost(plan, 0);
  plan.join(1);
  for (std::uint64_t request : {30, 10, 20})
    plan.push(1, request, {.first = static_cast<std::int64_t>(request)});
  EXPECT_EQ(plan.left(), 3);
  EXPECT_EQ(plan.next()->first, 10);
  plan.push(1, 5, {.first = 5});  // a late one, of a server that died
  EXPECT_EQ(plan.next()->first, 5);
  EXPECT_EQ(plan.next()->first, 20);
  EXPECT_EQ(plan.next()->first, 30);
  EXPECT_FALSE(plan.next());
}

TEST(FairPlan, Sequences_Rise) {
  FairPlan plan(two_workers());
  tell_cost(plan, 0);
  plan.join(1);
  plan.join(2);
  for (std::uint64_t request = 0; request < 3; ++request) {
    plan.push(1, request, {});
    plan.push(2, request, {});
  }
  for (std::uint64_t sequence = 1; sequence < 7; ++sequence) EXPECT_EQ(plan.next()->sequence, sequence);
}

TEST(FairPlan, WhatIsPlannedAheadOfTheWorkers_IsBounded) {
  FairPlan plan({.workers = 2, .slots = 64, .bytes = 64 * kMiB});
  tell_cost(plan, 0, 0.005);
  plan.join(1);
  for (std::uint64_t request = 0; request < 50; ++request) plan.push(1, request, {});
  int planned = 0;
  std::uint64_t last = 0;
  while (const auto batch = plan.next()) {
    ++planned;
    last = batch->sequence;
  }
  EXPECT_EQ(planned, 6);
  ASSERT_TRUE(plan.made({.sequence = last, .seconds = 0.005, .bytes = 1}));
  plan.freed(1, 1);
  EXPECT_TRUE(plan.next());
  EXPECT_FALSE(plan.next());
}

TEST(FairPlan, BatchesThatTakeLong_ArePlannedWhereAWorkerIsFree) {
  FairPlan plan(two_workers());
  tell_cost(plan, 1, 1.0, kMiB);
  plan.join(1);
  for (std::uint64_t request = 0; request < 8; ++request) plan.push(1, request, {.job = 1});
  const auto first = plan.next();
  ASSERT_TRUE(first && plan.next());
  EXPECT_FALSE(plan.next()) << "it would be made before whatever comes meanwhile";
  ASSERT_TRUE(plan.made({.sequence = first->sequence, .seconds = 1, .bytes = kMiB}));
  EXPECT_TRUE(plan.next());
  EXPECT_FALSE(plan.next());
}

TEST(FairPlan, WhileShortBatchesAreAskedFor_LongOnesLeaveThemAWorker) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 3});
  simulation.join(2, {.seconds = 0.001});
  for (double until = 0.3; until < 60; until += 0.3) {
    simulation.run(until, {1}, 4);
    simulation.ask(2);
  }
  simulation.run(60, {1}, 4);
  EXPECT_LT(simulation.longest_wait_of(2), 0.01) << "a worker is free whenever it asks";
  EXPECT_NEAR(simulation.seconds_of(1), 60, 4) << "the other one";
  simulation.run(120, {1}, 4);
  EXPECT_NEAR(simulation.seconds_of(1), 180, 10) << "both, as soon as nobody asks for short ones";
}

TEST(FairPlan, ClientThatLeaves_TakesNoWorkerFromAnotherThatAskedForAShortBatch) {
  FairPlanOptions options = two_workers();
  options.clock = [] { return 0.0; };
  FairPlan plan(options);
  tell_cost(plan, 1, 1.0, kMiB);
  tell_cost(plan, 2, 0.001, 1);
  for (std::uint64_t client : {1, 2, 3}) plan.join(client);
  for (std::uint64_t client : {2, 3}) {
    plan.push(client, 0, {.job = 2});
    ASSERT_TRUE(plan.made({.sequence = plan.next()->sequence, .seconds = 0.001, .bytes = 1}));
  }
  plan.leave(3);
  for (std::uint64_t request = 0; request < 4; ++request) plan.push(1, request, {.job = 1});
  EXPECT_TRUE(plan.next());
  EXPECT_FALSE(plan.next()) << "the other worker is client 2's";
  plan.leave(2);
  EXPECT_TRUE(plan.next());
}

TEST(FairPlan, ShortBatchesOfAClientAmongItsLongOnes_KeepNoWorkerFromIt) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 0.2});
  for (int i = 0; i < 300; ++i) {  // about as long as what a long one is
    simulation.takes(1, 0.15 + 0.02 * (i % 11));
    simulation.run(0.2 * (i + 1), {1}, 4);
  }
  EXPECT_GT(simulation.seconds_of(1), 0.97 * 120);
}

TEST(FairPlan, WhoComesLateWithLongBatches_HasItsTurnBesideManyShortOnes) {
  Simulation simulation(two_workers());
  for (std::uint64_t client : {1, 2}) simulation.join(client, {.seconds = 0.5});
  simulation.join(3, {.seconds = 0.001});
  simulation.run(100, {1, 2, 3}, 40);
  const double before = simulation.seconds_of(1), shorts = simulation.seconds_of(3);
  simulation.join(4, {.seconds = 0.5});
  simulation.run(400, {1, 2, 3, 4}, 40);
  EXPECT_NEAR(simulation.seconds_of(4), 100, 5);
  EXPECT_NEAR(simulation.seconds_of(1) - before, 100, 5);
  EXPECT_NEAR(simulation.seconds_of(3) - shorts, 300, 10) << "what the long ones cannot use";
}

TEST(FairPlan, WhoHadWhatOthersCouldNotUse_OwesNothingForIt) {
  Simulation simulation(two_workers());
  for (std::uint64_t client : {1, 2, 3}) simulation.join(client, {.seconds = 0.5});
  simulation.join(4, {.seconds = 0.001});
  simulation.run(100, {1, 2, 3, 4}, 40);
  EXPECT_NEAR(simulation.seconds_of(4), 100, 5) << "a worker of its own, where its share is half of one";
  const double before = simulation.seconds_of(4);
  simulation.join(5, {.seconds = 0.001});
  simulation.run(200, {1, 2, 3, 4, 5}, 40);
  EXPECT_NEAR(simulation.seconds_of(4) - before, simulation.seconds_of(5), 5);
}

TEST(FairPlan, LongBatchesBesideManyShortOnes_GetTheirShare) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 0.5});
  for (std::uint64_t client : {2, 3}) simulation.join(client, {.seconds = 0.001});
  simulation.run(60, {1, 2, 3}, 40);
  for (std::uint64_t client : {1, 2, 3}) EXPECT_NEAR(simulation.seconds_of(client), 40, 2) << client;
}

TEST(FairPlan, LongBatchesWithOneWorker_GoOn) {
  Simulation simulation({.workers = 1, .slots = 64, .bytes = 64 * kMiB});
  simulation.join(1, {.seconds = 0.5});
  simulation.join(2, {.seconds = 0.001});
  simulation.run(60, {1, 2}, 40);
  for (std::uint64_t client : {1, 2}) EXPECT_NEAR(simulation.seconds_of(client), 30, 2) << client;
}

TEST(FairPlan, BatchesOfUnknownCost_WaitForTheFirstOfTheirJob) {
  FairPlan plan(two_workers());
  for (std::uint64_t client : {1, 2}) {
    plan.join(client);
    for (std::uint64_t request = 0; request < 4; ++request) plan.push(client, request, {.job = 7});
  }
  const auto first = plan.next();
  ASSERT_TRUE(first);
  EXPECT_FALSE(plan.next());
  plan.join(3);
  plan.push(3, 0, {.job = 8});
  EXPECT_EQ(plan.next()->job, 8U);
  ASSERT_TRUE(plan.made({.sequence = first->sequence, .seconds = 0.001, .bytes = 1}));
  EXPECT_EQ(plan.next()->job, 7U);
  EXPECT_EQ(plan.next()->job, 7U);
}

TEST(FairPlan, BatchesOfOneJobWithFewSeedsAndWithMany_AreNotTakenForEachOther) {
  FairPlan plan(two_workers());
  for (std::uint64_t client : {1, 2}) plan.join(client);
  const auto ask = [&](std::uint64_t client, std::uint64_t request, std::int64_t count) {
    plan.push(client, request, {.count = count, .job = 7});
    const auto batch = plan.next();
    return batch ? std::optional(batch->sequence) : std::nullopt;
  };
  for (std::uint64_t request = 0; request < 20; ++request) {
    const auto sequence = ask(1, request, 1);
    ASSERT_TRUE(sequence);
    ASSERT_TRUE(plan.made({.sequence = *sequence, .seconds = 0.0001, .bytes = 1}));
    plan.freed(1, 1);
  }
  ASSERT_TRUE(ask(2, 0, 8'192));
  EXPECT_FALSE(ask(2, 1, 8'192)) << "nothing is known of those";
  for (std::uint64_t request = 20; request < 40; ++request) {
    const auto sequence = ask(1, request, 1);
    ASSERT_TRUE(sequence);
    ASSERT_TRUE(plan.made({.sequence = *sequence, .seconds = 0.0001, .bytes = 1}));
    plan.freed(1, 1);
  }
}

TEST(FairPlan, SmallBatches_ArePlannedFurtherAhead) {
  FairPlan plan({.workers = 1, .slots = 64, .bytes = 64 * kMiB, .ahead = 0.001});
  plan.join(1);
  for (std::uint64_t request = 0; request < 500; ++request) plan.push(1, request, {});
  for (int i = 0; i < 200; ++i) {  // 10 us each; what is known of the job gets there
    const auto batch = plan.next();
    ASSERT_TRUE(batch);
    ASSERT_TRUE(plan.made({.sequence = batch->sequence, .seconds = 1e-5, .bytes = 1024}));
    plan.freed(1, 1024);
  }
  int planned = 0;
  while (plan.next()) ++planned;
  EXPECT_GT(planned, 20);
  EXPECT_LE(planned, 64 / 2);
}

TEST(FairPlan, FourBusyClients_OneTenTimesAsCostly_ShareTheWorkersEvenly) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 0.1});
  for (std::uint64_t client : {2, 3, 4}) simulation.join(client, {.seconds = 0.01});
  simulation.run(60, {1, 2, 3, 4}, 8);
  for (std::uint64_t client : {1, 2, 3, 4})
    EXPECT_GE(simulation.seconds_of(client), 0.9 * 2 * 60 / 4) << client;
}

TEST(FairPlan, ClientThatTakesNothing_HoldsUpItselfAlone) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 0.01}, false);
  for (std::uint64_t client : {2, 3, 4}) simulation.join(client, {.seconds = 0.01});
  simulation.run(60, {1, 2, 3, 4}, 20);
  const FairPlan::ClientLoad frozen = simulation.plan().load(1);
  EXPECT_GT(frozen.blocks, 0);
  EXPECT_LE(frozen.blocks, 64 / 4);                    // its share of the slots
  EXPECT_LE(frozen.block_bytes, 64 * kMiB / (4 + 1));  // and of the memory
  EXPECT_TRUE(simulation.plan().held_back(1));
  for (std::uint64_t client : {2, 3, 4}) EXPECT_GE(simulation.seconds_of(client), 0.99 * 2 * 60 / 3 - 1);
}

TEST(FairPlan, ClientsThatTakeNothingOneAfterTheOther_LeaveSlotsForWhoComesNext) {
  Simulation simulation(two_workers());
  std::vector<std::uint64_t> clients;
  for (std::uint64_t frozen : {1, 2, 3, 4}) {
    simulation.join(frozen, {.seconds = 0.01, .bytes = 1}, false);
    clients.push_back(frozen);
    simulation.run(10 * static_cast<double>(frozen), clients, 100);
    EXPECT_GT(simulation.plan().load(frozen).blocks, 1);
    EXPECT_TRUE(simulation.plan().held_back(frozen));
  }
  EXPECT_LE(simulation.plan().load(1).blocks, 64 / 2);
  simulation.join(9, {.seconds = 0.01, .bytes = 1});
  clients.push_back(9);
  simulation.run(50, clients, 100);
  EXPECT_GE(simulation.seconds_of(9), 0.9 * 2 * 10);
}

TEST(FairPlan, BlocksLargerThanAShare_ComeOneAtATime) {
  FairPlan plan({.workers = 2, .slots = 64, .bytes = 4 * kMiB});
  plan.join(1);
  for (std::uint64_t request = 0; request < 4; ++request) plan.push(1, request, {});
  std::vector<std::uint64_t> first;
  while (const auto batch = plan.next()) first.push_back(batch->sequence);  // nothing is known of them so far
  for (std::uint64_t sequence : first) {
    ASSERT_TRUE(plan.made({.sequence = sequence, .seconds = 0.1, .bytes = 3 * kMiB}));
    plan.freed(1, 3 * kMiB);
  }
  for (std::uint64_t request = 10; request < 14; ++request) plan.push(1, request, {});
  const auto one = plan.next();
  ASSERT_TRUE(one);
  EXPECT_FALSE(plan.next());
  ASSERT_TRUE(plan.made({.sequence = one->sequence, .seconds = 0.1, .bytes = 3 * kMiB}));
  EXPECT_FALSE(plan.next());
  plan.freed(1, 3 * kMiB);
  EXPECT_TRUE(plan.next());
}

TEST(FairPlan, LargeBatchesBesideSmallOnes_GetTheirShareWhereMemoryIsShort) {
  Simulation simulation({.workers = 2, .slots = 64, .bytes = 10 * kMiB});
  simulation.join(1, {.seconds = 0.01, .bytes = 9 * kMiB});
  for (std::uint64_t client : {2, 3}) simulation.join(client, {.seconds = 0.01, .bytes = kMiB});
  simulation.run(60, {1, 2, 3}, 8);
  for (std::uint64_t client : {1, 2, 3}) EXPECT_GE(simulation.seconds_of(client), 10) << client;
}

TEST(FairPlan, ClientThatComesBack_HasSavedNothingUp) {
  Simulation simulation(two_workers());
  simulation.join(1, {.seconds = 0.01});
  simulation.join(2, {.seconds = 0.01});
  simulation.run(30, {1}, 8);
  const double before = simulation.seconds_of(1);
  simulation.run(40, {1, 2}, 8);
  EXPECT_NEAR(simulation.seconds_of(2), 10, 1);
  EXPECT_NEAR(simulation.seconds_of(1) - before, 10, 1);
}

TEST(FairPlan, ClientThatReconnects_OwesWhatItOwed) {
  FairPlan plan(two_workers());
  plan.join(1, "one");
  plan.join(2, "two");
  tell_cost(plan, 2);
  plan.push(1, 0, {.job = 1});
  ASSERT_TRUE(plan.made({.sequence = plan.next()->sequence, .seconds = 10, .bytes = 0}));
  plan.leave(1);
  plan.join(3, "one");
  plan.push(3, 0, {.first = 0, .job = 1});
  for (std::uint64_t request = 0; request < 4; ++request) plan.push(2, request, {.first = 5, .job = 2});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(plan.next()->first, 5) << i;
  EXPECT_EQ(plan.next()->first, 0);
}

TEST(FairPlan, WhatIsWithdrawnOrLeftBehind_IsNobodysAnyMore) {
  FairPlan plan(two_workers());
  plan.join(1);
  plan.join(2);
  plan.push(1, 0, {.job = 7});
  plan.push(1, 1, {.job = 8});
  plan.push(2, 0, {.job = 7});
  const auto planned = plan.next();
  ASSERT_TRUE(planned);
  plan.withdraw(1, 0);
  plan.push(1, 0, {.job = 9});  // its number is free again
  EXPECT_FALSE(plan.made({.sequence = planned->sequence, .seconds = 1, .bytes = 1}));
  EXPECT_EQ(plan.load(1).worker_seconds, 1) << "what was withdrawn is not free";
  EXPECT_EQ(plan.load(1).blocks, 0);
  plan.withdraw(1, 0);
  plan.withdraw(1, 1);
  EXPECT_EQ(plan.left(), 1);
  const auto other = plan.next();
  ASSERT_TRUE(other);
  EXPECT_EQ(plan.leave(2), std::vector<std::uint64_t>{other->sequence});
  EXPECT_EQ(plan.left(), 0);
  EXPECT_EQ(plan.under_way(), 0);
}

TEST(FairPlan, RefusedJob_IsPlannedNoMoreAndOthersGoOn) {
  FairPlan plan(two_workers());
  plan.join(1);
  plan.join(2);
  plan.push(1, 0, {.job = 7});
  plan.push(2, 0, {.job = 8});
  plan.push(2, 1, {.job = 7});
  const auto first = plan.next();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->job, 7U);
  EXPECT_EQ(plan.refuse(7), std::vector<std::uint64_t>{first->sequence});
  EXPECT_EQ(plan.next()->job, 8U);
  EXPECT_FALSE(plan.next());
}

}  // namespace
}  // namespace hopfeed
