// F36: the model of slot_protocol.h holds, and does not without any one of its rules.
#include "tests/channel/slot_protocol.h"

#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using slot_protocol::Bug;
using slot_protocol::Protocol;
using slot_protocol::ProtocolOptions;

class SlotProtocol : public testing::WatchedTest<300> {
 protected:
  static void holds(const ProtocolOptions& options) {
    Protocol protocol(options);
    EXPECT_EQ(protocol.explore(), "");
    std::printf("%zu states (more batches with HOPFEED_LONG_TESTS=1)\n", protocol.states());
    EXPECT_GT(protocol.states(), 10'000U) << "it did explore";
  }
  /// What the checks say about a protocol with one rule broken.
  static std::string fault_with(Bug bug) {
    return Protocol({.batches = 3, .crashes = 1, .may_leave = true, .bug = bug}).explore();
  }
};

TEST_F(SlotProtocol, DeathsBeforeAnyAccess_EveryBatchArrivesOnceAndWhole) {
  holds({.batches = static_cast<std::uint8_t>(testing::long_tests() ? 4 : 3),
         .crashes = static_cast<std::uint8_t>(testing::long_tests() ? 2 : 1)});
}

TEST_F(SlotProtocol, EpochLeftBesideADeathBeforeAnyAccess_TheNextIsWhole) {
  holds(
      {.batches = static_cast<std::uint8_t>(testing::long_tests() ? 3 : 2), .crashes = 1, .may_leave = true});
}

TEST_F(SlotProtocol, RequestsOfAQueueTakenInAnyOrder_EachArrivesOnceAndWhole) {
  holds({.batches = 3, .crashes = testing::long_tests(), .any_order = true, .queue = true});
}

TEST_F(SlotProtocol, FillerWithTwoClaimsDiesBeforeAnyAccess_BothGoBack) {
  holds({.batches = static_cast<std::uint8_t>(testing::long_tests() ? 4 : 3),
         .crashes = static_cast<std::uint8_t>(testing::long_tests() ? 2 : 1),
         .any_order = true,
         .one_filler = true});
}

TEST_F(SlotProtocol, FillerAndLoaderSleepOnTheirBells_NoWakeUpIsLost) {
  const ProtocolOptions loops{.crashes = 1, .any_order = true, .one_filler = true, .bells = true};
  ProtocolOptions requests = loops, epochs = loops;
  requests.queue = true;
  requests.batches = static_cast<std::uint8_t>(testing::long_tests() ? 3 : 2);
  epochs.may_leave = true;
  epochs.batches = static_cast<std::uint8_t>(testing::long_tests() ? 2 : 1);
  holds(requests);
  holds(epochs);
}

TEST_F(SlotProtocol, EachRuleOfTheBellsIsNeeded_WithoutItSomebodySleepsForEver) {
  ProtocolOptions loops{
      .batches = 2, .crashes = 0, .any_order = true, .queue = true, .one_filler = true, .bells = true};
  for (const Bug bug : {Bug::kLookBeforeListen, Bug::kRingBeforeWord, Bug::kOneShotBell}) {
    loops.bug = bug;
    loops.crashes = bug == Bug::kOneShotBell;  // of which a death is the point
    EXPECT_NE(Protocol(loops).explore(), "") << static_cast<int>(bug);
  }
}

TEST_F(SlotProtocol, EachRuleIsNeeded_WithoutItSomethingIsCaught) {
  EXPECT_NE(fault_with(Bug::kSameGeneration), "");
  EXPECT_NE(fault_with(Bug::kWordBeforeRecord), "");
  EXPECT_NE(fault_with(Bug::kReclaimFromLiving), "");
  EXPECT_NE(fault_with(Bug::kReadyBeforeWhole), "");
  EXPECT_NE(fault_with(Bug::kFilledWordIgnored), "");
}

}  // namespace
}  // namespace hopfeed
