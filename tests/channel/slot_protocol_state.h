// What the model of slot_protocol.h remembers of each side: the words and records of the slots, and how far
// each worker and the loader have come. All of it is bytes without padding, so that a state is known by the
// hash of its bytes.
#pragma once
#include <array>
#include <cstdint>

namespace hopfeed::slot_protocol {

using Byte = std::uint8_t;
constexpr int kSlots = 2, kWorkers = 2;
constexpr Byte kNobody = 0xFF;

enum class Bug {
  kNone,
  kSameGeneration,     // planning does not raise the generation
  kWordBeforeRecord,   // the word says PLANNED before the record says what
  kReclaimFromLiving,  // a hung worker's slot is given away while it may wake up and go on writing
  kReadyBeforeWhole,   // published, then written
  kFilledWordIgnored,  // a slot is freed on leaving an epoch without looking at who has it
};

struct Slot {
  Byte state = 0, owner = 0, generation = 0;  // the word
  Byte sequence = 0, abandoned = 0, wanted = 0, granted = 0;
  Byte content = 0;  // 2 s + 1: half of batch s, 2 s + 2: all of it
};

enum WorkerStep : Byte {
  kLookAtWord,
  kLookAtBatch,
  kClaim,
  kAsk,
  kLookAbandoned,
  kLookGranted,
  kWriteHalf,
  kWriteRest,
  kPublish,
  kDead
};

struct Worker {
  Byte step = kLookAtWord, incarnation = 0;
  Byte slot = 0;                                                // that it looks at, or has claimed
  Byte generation = 0, sequence = 0;                            // as seen there
  Byte best = kNobody, best_generation = 0, best_sequence = 0;  // the lowest planned one so far
  Byte writes = 0;  // publishes a block, and not only that there is none
};

enum LoaderStep : Byte {
  kIdle,
  kSweep,
  kGrant,
  kPlanRecord,
  kPlanWord,
  kAbandonLook,
  kAbandonSwap,
  kAbandonMark,
  kReclaim,
  kReclaimWord
};

struct Loader {
  Byte step = kIdle, slot = 0, incarnation = 0, generation = 0;
  Byte first = 0, planned = 0, taken = 0;  // of the running epoch
  Byte next_incarnation = 1, crashes_left = 0, may_leave = 0, leaving = 0;
  Byte dead_worker = kNobody;  // it is being buried
};

/// All bytes, no padding: a state is known by its hash.
struct State {
  std::array<Slot, kSlots> slots;
  std::array<Worker, kWorkers> workers;
  Loader loader;
};
static_assert(sizeof(State) == 8 * kSlots + 9 * kWorkers + 12);

struct ProtocolOptions {
  Byte batches = 3, crashes = 1;
  bool may_leave = false;
  Bug bug = Bug::kNone;
};

}  // namespace hopfeed::slot_protocol
