// The model of slot_protocol.h remembers this of each side: the words and records of the slots, and how far
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
  kLookBeforeListen,   // a filler looks for work, then says that it listens, then sleeps
  kRingBeforeWord,     // a bell is rung for what is planned only then
  kOneShotBell,        // who rings takes the listener's flag down first, and may die in between
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
  kTellAsked,  // with bells alone, as all that rings:
  kTellPublished,
  kTellLate,  // kOneShotBell
  kDead
};

/// A Worker is one claim and what becomes of it: a filler that holds one at a time, or, with one_filler, one
/// of several claims of an event loop, which go on by themselves and die together.
struct Worker {
  Byte step = kLookAtWord, incarnation = 0;
  Byte slot = 0;                                                // the slot that it looks at, or has claimed
  Byte generation = 0, sequence = 0;                            // as seen there
  Byte best = kNobody, best_generation = 0, best_sequence = 0;  // the lowest planned one so far
  Byte writes = 0;  // publishes a block, and not only that there is none
  Byte parked = 0;  // has found nothing to do since its filler listens
};

enum LoaderStep : Byte {
  kIdle,
  kSweep,
  kGrant,
  kGrantRing,
  kPlanRecord,
  kPlanWord,
  kPlanRing,
  kAbandonLook,
  kAbandonSwap,
  kAbandonMark,
  kAbandonRing,
  kReclaim,
  kReclaimWord,
  kReclaimRing,
  kLookReady
};

enum Ear : Byte { kAwake, kListening, kAsleep };

struct Loader {
  Byte step = kIdle, slot = 0, incarnation = 0, generation = 0;
  Byte first = 0, pushed = 0, planned = 0, taken = 0;  // of the running epoch; taken: a bit for each
  Byte next_incarnation = 1, crashes_left = 0, may_leave = 0, leaving = 0;
  Byte dead_worker = kNobody;  // it is being buried
  Byte ear = kAwake;
};

/// A State is all bytes, without padding: it is known by its hash.
struct State {
  std::array<Slot, kSlots> slots;
  std::array<Worker, kWorkers> workers;
  Loader loader;
  Byte fillers_ear = kAwake;
  Byte work_listening = 0, work_rung = 0, loader_listening = 0, loader_rung = 0;  // flags and eventfds
};
static_assert(sizeof(State) == 8 * kSlots + 10 * kWorkers + 14 + 5);

struct ProtocolOptions {
  Byte batches = 3, crashes = 1;
  bool may_leave = false;
  bool any_order = false;   // whichever batch is READY may be taken
  bool queue = false;       // batches are asked for one by one, at any moment
  bool one_filler = false;  // both claims are one filler's
  bool bells = false;       // it and the loader sleep on bells; with one_filler and any_order
  Bug bug = Bug::kNone;
};

}  // namespace hopfeed::slot_protocol
