// A partition that has two servers: the quicker is asked, one that is late is not waited for, connections
// that nothing needs are closed, and the bytes stay.
#include <thread>

#include "peers/peer_network.h"
#include "tests/peers/peer_test.h"
#include "tests/wire/proxy.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::PassingOn;
using testing::Proxy;

constexpr std::chrono::milliseconds kNever = 24h;

class Replicas : public PeerTest {
 protected:
  /// The second partition twice, each behind a network of its own.
  struct Two {
    explicit Two(const PassingOn& first_to_client = {}, const PassingOn& second_to_client = {})
        : a(server_a.address(), {.to_client = first_to_client}),
          b(server_b.address(), {.to_client = second_to_client}) {}
    PeerOptions options() const {
      PeerOptions both = machine(0, {a.address().to_text(), b.address().to_text()});
      both.replicas = 2;
      both.deadline = kNever;  // who waits for it is found by the watchdog
      return both;
    }
    ServerProcess server_a{path(2).string(), with_partition(1)},
        server_b{path(2).string(), with_partition(1)};
    Proxy a, b;
  };
  class Network {
   public:
    explicit Network(const PeerOptions& options, PeerPatience patience = {})
        : network_(Dataset(path(2)).meta(), {0}, options, PeerService::kPartitions, {}, patience) {
      network_.wait_until_known();
    }
    PeerNetwork* operator->() { return &network_; }
    /// Asks and waits for so many, one after the other.
    void ask_one_by_one(int count) {
      for (int i = 0; i < count; ++i) expect_right(network_.wait(network_.ask(1, degrees_of_first_row())));
    }
    std::vector<PartitionPeers::Ticket> ask_together(int count) {
      std::vector<PartitionPeers::Ticket> tickets;
      for (int i = 0; i < count; ++i) tickets.push_back(network_.ask(1, degrees_of_first_row()));
      network_.send_asked();
      return tickets;
    }
    void wait_for(const std::vector<PartitionPeers::Ticket>& tickets) {
      for (const PartitionPeers::Ticket ticket : tickets) expect_right(network_.wait(ticket));
    }
    template <class Holds>
    void until(const Holds& holds) const {
      while (!holds()) std::this_thread::sleep_for(5ms);
    }

   private:
    PeerNetwork network_;
  };
  static void expect_right(const PeerAnswer& answer) {
    PeerReader in = open_answer(*answer, "degrees").in;
    const auto degrees = in.array<std::int64_t>(1);
    const Dataset whole(path(2));
    const CscPart& part = whole.csc(0).parts[1];
    EXPECT_EQ(degrees[0], part.rows[1].offset - part.rows[0].offset);
  }
  /// Bytes of one question on the wire.
  static std::uint64_t question_bytes(Network& network, const Proxy& a, const Proxy& b) {
    const std::uint64_t before = a.bytes_to_server() + b.bytes_to_server();
    network.ask_one_by_one(1);
    return a.bytes_to_server() + b.bytes_to_server() - before;
  }
};

TEST_F(Replicas, OneIsSlow_TheOtherIsAskedNearlyAlways) {
  Two two({.delay = 500ms});  // far more than the other takes on a busy machine
  Network network(two.options(), {.late = kNever});
  network.ask_one_by_one(4);  // both are known
  const std::uint64_t one = question_bytes(network, two.a, two.b), before = two.a.bytes_to_server();
  network.ask_one_by_one(200);
  for (int i = 0; i < 20; ++i) network.wait_for(network.ask_together(4));
  EXPECT_LE(two.a.bytes_to_server() - before, 28 * one) << "10% of 280";
  EXPECT_EQ(network->counts().asked_twice, 0);
}

TEST_F(Replicas, SlowOneIsQuickAgain_ItIsAskedAgain) {
  Two two({.delay = 50ms});
  Network network(two.options(), {.late = kNever});
  network.ask_one_by_one(20);
  const std::uint64_t one = question_bytes(network, two.a, two.b);
  two.a.set({}, {});
  two.a.cut();
  two.b.set({}, {.delay = 20ms});
  two.b.cut();
  const std::uint64_t before = two.a.bytes_to_server();
  while (two.a.bytes_to_server() - before < 100 * one) network.ask_one_by_one(1);
}

TEST_F(Replicas, OneHangs_WhatItOwesIsAskedOfTheOtherAndTheBytesAreRight) {
  Two two;
  Network network(two.options());
  network.ask_one_by_one(300);
  EXPECT_EQ(network->counts().asked_again, 0);
  two.a.freeze_to_client();
  // Sooner or later one is with the one that hangs.
  for (int i = 0; i < 100 && network->counts().asked_twice == 0; ++i)
    network.wait_for(network.ask_together(6));
  EXPECT_GT(network->counts().asked_twice, 0);
  EXPECT_EQ(network->counts().asked_again, 0) << "nobody has waited until it was given up";
  EXPECT_EQ(two.a.connections(), 1);
}

TEST_F(Replicas, BothHang_AreAskedASecondTimeForOneQuestionInTwenty) {
  Two two;
  Network network(two.options());
  network.ask_one_by_one(100);
  two.a.freeze_to_client(), two.b.freeze_to_client();
  const auto tickets = network.ask_together(200);
  network.until([&] { return network->counts().asked_twice >= 10; });
  std::this_thread::sleep_for(200ms);  // all are late by now, several times
  const PeerNetwork::Counts counts = network->counts();
  EXPECT_LE(counts.asked_twice * 20, counts.questions);
  two.a.cut(), two.b.cut();
  network.wait_for(tickets);
}

TEST_F(Replicas, SecondAnswerComesLate_IsPassedOver) {
  Two two({.delay = 30ms}, {.delay = 30ms});
  Network network(two.options(), {.late = 1ms});
  // Until it has answered, nobody knows how long a server takes.
  network.wait_for(network.ask_together(60));
  network.until([&] { return network->counts().asked_twice > 0 || (network.ask_one_by_one(20), false); });
  network.ask_one_by_one(20);  // the other answers are there too
  const PeerNetwork::Counts counts = network->counts();
  EXPECT_EQ(counts.answers, counts.questions) << "each is counted once";
  EXPECT_EQ(counts.asked_again, 0);
  EXPECT_EQ(two.a.connections() + two.b.connections(), 2) << "and is no fault";
}

TEST_F(Replicas, ServersDieWhileBothHaveTheQuestion_ItIsAskedAgainOnlyOnceNobodyHasIt) {
  Two two;
  Network network(two.options());
  network.ask_one_by_one(100);
  two.a.freeze_to_client(), two.b.freeze_to_client();
  const auto tickets = network.ask_together(1);
  network.until([&] { return network->counts().asked_twice == 1; });
  two.a.cut();
  network.until([&] { return two.a.connections() == 2 && network->open_connections() == 2; });
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(network->counts().asked_again, 0) << "the other has it";
  two.server_a.kill();
  two.a.refuse(true);
  two.a.cut();
  network.until([&] { return network->open_connections() == 1; });
  EXPECT_EQ(network->counts().asked_again, 0) << "the other has it";
  two.b.cut();  // and comes back
  network.wait_for(tickets);
  EXPECT_EQ(network->counts().asked_again, 1);
}

TEST_F(Replicas, IdleConnection_IsClosedAndOpenedWhenItIsNeeded) {
  Two two;
  Network network(two.options(), {.late = kNever, .idle = 300ms});
  EXPECT_EQ(network->open_connections(), 2U);
  const auto all_asleep_but_one = [&] {
    network.until([&] { return network->open_connections() == 1; });
    while (two.a.open_connections() + two.b.open_connections() != 1) std::this_thread::sleep_for(5ms);
  };
  all_asleep_but_one();
  EXPECT_TRUE(network->missing().empty());
  while (network->open_connections() == 1) network.wait_for(network.ask_together(8));
  EXPECT_EQ(network->counts().asked_again, 0);
  all_asleep_but_one();
  std::this_thread::sleep_for(700ms);
  EXPECT_EQ(network->open_connections(), 1U) << "the last one stays";
  // Who is asleep takes over.
  Proxy& open = two.a.open_connections() == 1 ? two.a : two.b;
  open.refuse(true);
  open.cut();
  network.ask_one_by_one(20);
  EXPECT_TRUE(network->missing().empty());
  EXPECT_EQ(network->open_connections(), 1U);
}

TEST_F(Replicas, SleepingOneIsGone_IsFoundOutOnceItIsNeeded) {
  Two two;
  Network network(two.options(), {.late = kNever, .idle = 200ms});
  network.until([&] { return network->open_connections() == 1; });
  while (two.a.open_connections() + two.b.open_connections() != 1) std::this_thread::sleep_for(5ms);
  const bool a_sleeps = two.a.open_connections() == 0;
  Proxy &asleep = a_sleeps ? two.a : two.b, &open = a_sleeps ? two.b : two.a;
  asleep.refuse(true);
  for (int i = 0; i < 10; ++i) network.wait_for(network.ask_together(8));  // also of the one that is gone
  EXPECT_TRUE(network->missing().empty());
  open.refuse(true);
  open.cut();
  network.until([&] { return !network->missing().empty(); });
  expect_part(network->missing().front().why, two.a.address().to_text());
  expect_part(network->missing().front().why, two.b.address().to_text());
  asleep.refuse(false);
  network.ask_one_by_one(1);
  EXPECT_TRUE(network->missing().empty());
}

TEST_F(Replicas, QuestionsThatAreAskedTogether_WakeTheThreadOnce) {
  Two two;
  Network network(two.options());
  for (int hop = 0; hop < 10; ++hop) {
    const std::int64_t before = network->counts().wakeups;
    std::vector<PartitionPeers::Ticket> tickets;
    for (int i = 0; i < 8; ++i) tickets.push_back(network->ask(1, degrees_of_first_row()));
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(network->counts().wakeups, before) << "nothing has left yet";
    network.wait_for(tickets);
    EXPECT_EQ(network->counts().wakeups, before + 1);
  }
}

TEST_F(Replicas, OneHangsDuringEpochs_TheBytesStayAndReportsTellWhatWasAskedTwice) {
  for (const std::int64_t workers : {0, 2}) {
    Two two;
    LoaderOptions o = options_of(two.options());
    o.execution.num_workers = workers;
    Loader loader(o);
    int known = 0;  // each process has to have asked twenty questions before it may ask one twice
    for (; loader.stats().tiers.peer_questions < 300; ++known)
      EXPECT_EQ(epoch_of(loader, known), expected(options(), {.epoch = known}));
    for (int epoch = 1; loader.stats().tiers.peer_asked_twice == 0; ++epoch) {
      if (epoch % 4 == 1) two.a.freeze_to_client();
      EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch}));
    }
    const TierCounts tiers = loader.stats().tiers;
    EXPECT_LE(tiers.peer_asked_twice * 20, tiers.peer_questions);
    expect_part(tiers.text(), " questions to other machines asked twice");
  }
}

}  // namespace
}  // namespace hopfeed
