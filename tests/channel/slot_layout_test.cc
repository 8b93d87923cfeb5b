// The byte layout of docs/formats.md, offset by offset: processes of one build only share a channel, but
// hopfeed-top and a debugger read it by these numbers.
#include "channel/slot_layout.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace hopfeed {
namespace {

TEST(SlotLayout, OffsetsAreThoseOfTheDocumentation) {
  EXPECT_EQ(offsetof(SlotRecord, word), 0U);
  EXPECT_EQ(offsetof(SlotRecord, sequence), 8U);
  EXPECT_EQ(offsetof(SlotRecord, epoch), 16U);
  EXPECT_EQ(offsetof(SlotRecord, granted), 40U);
  EXPECT_EQ(offsetof(SlotRecord, wanted), 48U);
  EXPECT_EQ(offsetof(SlotRecord, grant_event), 56U);
  EXPECT_EQ(offsetof(SlotRecord, abandoned), 60U);
  EXPECT_EQ(offsetof(SlotRecord, used), 64U);
  EXPECT_EQ(offsetof(SlotRecord, worker), 72U);
  EXPECT_EQ(offsetof(SlotRecord, error_code), 76U);
  EXPECT_EQ(offsetof(SlotRecord, times), 80U);
  EXPECT_EQ(offsetof(SlotRecord, announced), 144U);
  EXPECT_EQ(offsetof(SlotRecord, job), 148U);
  EXPECT_EQ(offsetof(SlotRecord, held), 152U);
  EXPECT_EQ(offsetof(SlotRecord, tiers), 160U);
  EXPECT_EQ(offsetof(SlotRecord, error), 272U);
  EXPECT_EQ(offsetof(WorkerRecord, incarnation), 4U);
  EXPECT_EQ(offsetof(WorkerRecord, waited_for_grant), 8U);
  EXPECT_EQ(offsetof(WorkerRecord, waited_for_slot), 16U);
  EXPECT_EQ(offsetof(WorkerRecord, error_code), 24U);
  EXPECT_EQ(offsetof(WorkerRecord, heartbeat), 80U);
  EXPECT_EQ(offsetof(WorkerRecord, at_slot), 84U);
  EXPECT_EQ(offsetof(WorkerRecord, tiers), 88U);
  EXPECT_EQ(offsetof(WorkerRecord, waiting_since), 32U);
  EXPECT_EQ(offsetof(WorkerRecord, batches), 40U);
  EXPECT_EQ(offsetof(WorkerRecord, gathering), 56U);
  EXPECT_EQ(offsetof(WorkerRecord, gpu_context), 200U);
  EXPECT_EQ(offsetof(WorkerRecord, gpu_batches), 224U);
  EXPECT_EQ(offsetof(WorkerRecord, gpu_graph_share), 256U);
  EXPECT_EQ(offsetof(WorkerRecord, error), 272U);
  EXPECT_EQ(offsetof(ControlBlock, version), 8U);
  EXPECT_EQ(offsetof(ControlBlock, slot_stride), 24U);
  EXPECT_EQ(offsetof(ControlBlock, total_bytes), 32U);
  EXPECT_EQ(offsetof(ControlBlock, work_event), 64U);
  EXPECT_EQ(offsetof(ControlBlock, loader_event), 128U);
  EXPECT_EQ(offsetof(SharedEvent, sleepers), 4U);
  EXPECT_EQ(offsetof(SharedEvent, listening), 8U);
  EXPECT_EQ(offsetof(SharedEvent, bumped_on), 12U);
  EXPECT_EQ(offsetof(ControlBlock, terminate), 192U);
  EXPECT_EQ(offsetof(ControlBlock, published), 256U);
  EXPECT_EQ(offsetof(ControlBlock, loader), 320U);
  EXPECT_EQ(offsetof(LoaderRecord, unplanned), 24U);
  EXPECT_EQ(offsetof(LoaderRecord, bytes), 40U);
  EXPECT_EQ(offsetof(LoaderRecord, waited_for_sampling), 48U);
  EXPECT_EQ(offsetof(LoaderRecord, waiting_since), 72U);
  EXPECT_EQ(offsetof(LoaderRecord, world_size), 88U);
}

TEST(SlotLayout, WordPacksStateOwnerAndGeneration) {
  const SlotWord word{.state = SlotState::kFilling, .owner = 0xABCDEF1, .generation = 0xFEDCBA98};
  EXPECT_EQ(word.pack(), 0xFEDCBA98ABCDEF12U);
  EXPECT_EQ(SlotWord::unpack(word.pack()), word);
}

}  // namespace
}  // namespace hopfeed
