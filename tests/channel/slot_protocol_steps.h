// A filler and the loader take these steps, access by access, in the model of slot_protocol.h.
#pragma once
#include <algorithm>
#include <bit>
#include <string>

#include "tests/channel/slot_protocol_state.h"
#include "tests/channel/slot_transitions.h"

namespace hopfeed::slot_protocol {

class Steps {
 public:
  explicit Steps(const ProtocolOptions& options) : options_(options) {}

 protected:
  /// Every change of a word goes through here.
  void set_word(State& s, Byte slot, Actor by, SlotState to, Byte owner, Byte generation) {
    const Transition transition{.from = static_cast<SlotState>(s.slots[slot].state), .to = to, .by = by};
    if (!in_table(transition)) fail("a transition that is not in the table", s);
    s.slots[slot].state = static_cast<Byte>(to);
    s.slots[slot].owner = owner;
    s.slots[slot].generation = generation;
  }
  static bool is(const Slot& slot, SlotState state) { return slot.state == static_cast<Byte>(state); }

  // ---- a worker (worker_port.cc, run_worker.cc)

  bool crash(State& s, int w) {
    if (s.loader.crashes_left == 0 || s.workers[w].step == kDead) return false;
    if (options_.one_filler && w > 0) return false;  // dies with the first
    if (options_.bug == Bug::kReclaimFromLiving && s.loader.step != kIdle) return false;
    --s.loader.crashes_left;
    if (options_.bug == Bug::kReclaimFromLiving) {  // taken for dead, and it goes on
      s.loader.incarnation = s.workers[w].incarnation;
      s.loader.step = kReclaim;
      s.loader.slot = 0;
      return true;
    }
    for (int other = 0; other < kWorkers; ++other) {
      if (other == w || options_.one_filler)
        s.workers[other] = {.step = kDead, .incarnation = s.workers[other].incarnation};
    }
    s.fillers_ear = kAwake;
    return true;
  }

  bool step_worker(State& s, int w) {
    Worker& me = s.workers[w];
    Slot& slot = s.slots[me.slot];
    if (me.parked) return false;
    switch (me.step) {
      case kLookAtWord:
        me.generation = slot.generation;
        if (!is(slot, SlotState::kPlanned)) return look_at_next(s, me);
        me.step = kLookAtBatch;
        return true;
      case kLookAtBatch:
        if (me.best == kNobody || slot.sequence < me.best_sequence) {
          me.best = me.slot;
          me.best_generation = me.generation;
          me.best_sequence = slot.sequence;
        }
        me.step = kLookAtWord;
        return look_at_next(s, me);
      case kClaim: {
        const bool mine = is(slot, SlotState::kPlanned) && slot.generation == me.generation;
        if (mine) set_word(s, me.slot, Actor::kWorker, SlotState::kFilling, me.incarnation, me.generation);
        me = {.step = mine ? kAsk : kLookAtWord,
              .incarnation = me.incarnation,
              .slot = mine ? me.slot : Byte{0},
              .generation = mine ? me.generation : Byte{0},
              .sequence = mine ? me.sequence : Byte{0}};
        return true;
      }
      case kAsk:
        slot.wanted = 1;
        me.step = options_.bells ? kTellAsked : kLookAbandoned;
        return true;
      case kTellAsked:
        if (!slot.granted) s.loader_rung = 1;  // always: somebody grants
        me.step = kLookAbandoned;
        return true;
      case kLookAbandoned:
        me.writes = slot.abandoned == 0;
        me.step = me.writes ? kLookGranted : kPublish;
        if (!me.writes) wake_fillers(s);
        return true;
      case kLookGranted:
        me.step =
            slot.granted ? (options_.bug == Bug::kReadyBeforeWhole ? kPublish : kWriteHalf) : kLookAbandoned;
        if (slot.granted) {
          wake_fillers(s);
        } else {
          me.parked = s.fillers_ear == kListening;
        }
        return true;
      case kWriteHalf:
        slot.content = static_cast<Byte>(2 * me.sequence + 1);
        me.step = kWriteRest;
        return true;
      case kWriteRest:
        slot.content = static_cast<Byte>(2 * me.sequence + 2);
        me.step = kPublish;
        if (options_.bug == Bug::kReadyBeforeWhole) me = {.step = kLookAtWord, .incarnation = me.incarnation};
        return true;
      case kPublish: {
        const bool mine =
            is(slot, SlotState::kFilling) && slot.owner == me.incarnation && slot.generation == me.generation;
        if (mine) set_word(s, me.slot, Actor::kWorker, SlotState::kReady, me.incarnation, me.generation);
        if (options_.bug == Bug::kReadyBeforeWhole && me.writes)
          me.step = kWriteHalf;
        else
          me = {.step = mine && options_.bells ? kTellPublished : kLookAtWord, .incarnation = me.incarnation};
        return true;
      }
      case kTellPublished:
        me.step = kLookAtWord;
        if (!s.loader_listening) return true;
        if (options_.bug == Bug::kOneShotBell) {
          s.loader_listening = 0;
          me.step = kTellLate;
        } else {
          s.loader_rung = 1;
        }
        return true;
      case kTellLate:
        s.loader_rung = 1;
        me.step = kLookAtWord;
        return true;
      default:
        return false;
    }
  }

  /// Goes on behind the last slot: claims the lowest that it found, or looks again.
  static bool look_at_next(State& s, Worker& me) {
    me.generation = 0;
    if (++me.slot < kSlots) return true;
    const Worker found = me;
    me = {.step = kLookAtWord, .incarnation = found.incarnation};
    if (found.best == kNobody) {
      me.parked = s.fillers_ear == kListening;
      return true;
    }
    wake_fillers(s);
    me.step = kClaim;
    me.slot = found.best;
    me.generation = found.best_generation;
    me.sequence = found.best_sequence;
    return true;
  }

  // ---- the event loop of a filler with several claims (bell.h)

  static bool all_parked(const State& s) {
    return std::all_of(s.workers.begin(), s.workers.end(), [](const Worker& w) { return w.parked != 0; });
  }
  static void wake_fillers(State& s) {
    if (s.fillers_ear == kAwake) return;
    s.fillers_ear = kAwake;
    s.work_listening = s.work_rung = 0;
    for (Worker& worker : s.workers) worker.parked = 0;
  }
  /// Says that it listens, when no claim has anything at hand, and looks once more at all it could do.
  bool fillers_listen(State& s) const {
    const bool late = options_.bug == Bug::kLookBeforeListen;
    if (!options_.bells || s.workers[0].step == kDead) return false;
    if (s.fillers_ear == kListening) {  // the bug: says so only now
      if (!late || !all_parked(s) || s.work_listening) return false;
      s.work_listening = 1;
      return true;
    }
    for (const Worker& worker : s.workers) {
      const bool looks = worker.step == kLookAtWord && worker.slot == 0;
      if (!looks && worker.step != kLookAbandoned) return false;
    }
    s.fillers_ear = kListening;
    s.work_listening = !late;
    return true;
  }
  static bool fillers_wake(State& s) {
    if (s.fillers_ear != kListening || !all_parked(s) || !s.work_rung) return false;
    wake_fillers(s);
    return true;
  }

  // ---- the loader (slot_pool.cc); it knows its own FREE and HELD slots without looking

  bool step_loader(State& s) {
    Loader& me = s.loader;
    Slot& slot = s.slots[me.slot];
    switch (me.step) {
      case kSweep:  // READY changes by the loader alone, so that looking and freeing may be one step
        if (is(slot, SlotState::kReady) && slot.abandoned) free_slot(s, me.slot);
        return next_slot(me, me.leaving ? kIdle : kGrant);
      case kGrant:
        if (is(slot, SlotState::kFilling) && !slot.abandoned && slot.wanted > slot.granted) {
          slot.granted = 1;
          me.step = kGrantRing;
          if (options_.bells) return true;
        }
        me.step = kGrant;
        return next_slot(me, kPlanRecord);
      case kGrantRing:
        ring_fillers(s);
        me.step = kGrant;
        return next_slot(me, kPlanRecord);
      case kPlanRecord:
        if (!is(slot, SlotState::kFree) || me.planned == me.pushed) return next_slot(me, kIdle);
        if (options_.bug == Bug::kWordBeforeRecord) {
          plan_word(s);
        } else {
          plan_record(s);
        }
        if (options_.bug == Bug::kRingBeforeWord) ring_fillers(s);
        me.step = kPlanWord;
        return true;
      case kPlanWord:
        if (options_.bug == Bug::kWordBeforeRecord) {
          plan_record(s);
        } else {
          plan_word(s);
        }
        ++me.planned;
        me.step = kPlanRing;
        if (options_.bells && options_.bug != Bug::kRingBeforeWord) return true;
        me.step = kPlanRecord;
        return next_slot(me, kIdle);
      case kPlanRing:
        ring_fillers(s);
        me.step = kPlanRecord;
        return next_slot(me, kIdle);
      case kAbandonLook:
        me.generation = slot.generation;
        if (is(slot, SlotState::kPlanned)) {
          me.step = kAbandonSwap;
          return true;
        }
        if (is(slot, SlotState::kFilling) || is(slot, SlotState::kReady)) {
          me.step = kAbandonMark;
          return true;
        }
        return next_slot(me, kSweep);
      case kAbandonSwap: {
        const bool unclaimed = is(slot, SlotState::kPlanned) && slot.generation == me.generation;
        if (unclaimed || options_.bug == Bug::kFilledWordIgnored) {
          free_slot(s, me.slot);
          me.step = kAbandonLook;
          return next_slot(me, kSweep);
        }
        me.step = kAbandonMark;  // a worker was quicker
        return true;
      }
      case kAbandonMark:
        slot.abandoned = 1;
        me.step = kAbandonRing;
        if (options_.bells) return true;
        me.step = kAbandonLook;
        return next_slot(me, kSweep);
      case kAbandonRing:
        ring_fillers(s);
        me.step = kAbandonLook;
        return next_slot(me, kSweep);
      case kReclaim:
        if (!is(slot, SlotState::kFilling) || slot.owner != me.incarnation) return next_reclaim(s);
        slot.wanted = 0;
        me.step = kReclaimWord;
        return true;
      case kReclaimWord:
        if (slot.abandoned) {
          free_slot(s, me.slot);
        } else {
          set_word(s, me.slot, Actor::kLoader, SlotState::kPlanned, 0, next_generation(slot));
        }
        me.step = kReclaim;
        return next_reclaim(s);
      case kReclaimRing:
        ring_fillers(s);
        if (s.loader_listening) s.loader_rung = 1;
        return end_reclaim(s);
      case kLookReady:
        if (is(slot, SlotState::kReady) && !slot.abandoned) {
          me.slot = 0;
          me.step = kIdle;
          wake_loader(s);
          return true;
        }
        next_slot(me, kIdle);
        if (me.step == kIdle) me.ear = kAsleep;
        return true;
      default:
        return false;
    }
  }

  void plan_record(State& s) {
    Slot& slot = s.slots[s.loader.slot];
    slot.sequence = static_cast<Byte>(s.loader.first + s.loader.planned);
    slot.wanted = slot.abandoned = 0;
  }
  void plan_word(State& s) {
    set_word(s, s.loader.slot, Actor::kLoader, SlotState::kPlanned, 0,
             next_generation(s.slots[s.loader.slot]));
  }
  Byte next_generation(const Slot& slot) const {
    return static_cast<Byte>(slot.generation + (options_.bug == Bug::kSameGeneration ? 0 : 1));
  }
  void free_slot(State& s, Byte slot) {
    set_word(s, slot, Actor::kLoader, SlotState::kFree, 0, s.slots[slot].generation);
  }

  /// Repeats the step for the next slot; behind the last one comes `then`, from the first slot.
  static bool next_slot(Loader& me, LoaderStep then) {
    me.generation = 0;
    if (++me.slot < kSlots) return true;
    me.slot = 0;
    if (then == kIdle && me.ear == kListening && me.step != kLookReady) then = kLookReady;
    me.step = then;
    if (then == kIdle) me.leaving = 0;
    return true;
  }
  /// Starts the dead worker's replacement behind the last slot.
  bool next_reclaim(State& s) {
    next_slot(s.loader, kIdle);
    if (s.loader.step != kIdle) return true;
    if (!options_.bells) return end_reclaim(s);
    s.loader.step = kReclaimRing;
    return true;
  }
  bool end_reclaim(State& s) {
    Loader& me = s.loader;
    me.step = kIdle;
    me.incarnation = 0;
    if (me.dead_worker == kNobody) return true;
    for (int w = 0; w < kWorkers; ++w) {
      if (w == me.dead_worker || options_.one_filler)
        s.workers[w] = {.step = kLookAtWord, .incarnation = me.next_incarnation};
    }
    ++me.next_incarnation;
    me.dead_worker = kNobody;
    s.fillers_ear = kListening;  // as if: it starts awake, with nothing rung
    wake_fillers(s);
    return true;
  }

  static void ring_fillers(State& s) {
    if (s.work_listening) s.work_rung = 1;
  }
  static void wake_loader(State& s) {
    s.loader.ear = kAwake;
    s.loader_listening = s.loader_rung = 0;
  }
  /// Says that it listens, sweeps, grants and plans once more, and looks whether anything is READY.
  bool loader_listens(State& s) const {
    if (!options_.bells || s.loader.ear != kAwake) return false;
    s.loader.ear = kListening;
    s.loader_listening = 1;
    s.loader.step = kSweep;
    s.loader.slot = 0;
    return true;
  }
  static bool loader_wakes(State& s) {
    if (s.loader.ear != kAsleep || !s.loader_rung) return false;
    wake_loader(s);
    return true;
  }

  bool take(State& s, Byte i) {
    const Slot& slot = s.slots[i];
    if (s.loader.ear != kAwake || !is(slot, SlotState::kReady) || slot.abandoned) return false;
    const int batch = slot.sequence - s.loader.first;
    if (!options_.any_order && batch != std::countr_one(s.loader.taken)) return false;
    if (slot.content != 2 * slot.sequence + 2) fail("a batch that is torn or another one", s);
    if ((s.loader.taken >> batch & 1) != 0) fail("a batch taken twice", s);
    set_word(s, i, Actor::kLoader, SlotState::kHeld, 0, slot.generation);
    s.loader.taken = static_cast<Byte>(s.loader.taken | 1 << batch);
    return true;
  }
  bool release(State& s) {
    for (Byte i = 0; i < kSlots; ++i) {
      if (!is(s.slots[i], SlotState::kHeld)) continue;
      if (s.slots[i].content % 2 != 0 || s.slots[i].content == 0) fail("written while it was viewed", s);
      free_slot(s, i);
      wake_loader(s);
      return true;
    }
    return false;
  }
  /// Asks for one batch more.
  bool push(State& s) const {
    if (s.loader.pushed == options_.batches) return false;
    ++s.loader.pushed;
    wake_loader(s);
    return true;
  }
  bool leave(State& s) {
    if (!s.loader.may_leave) return false;
    Loader& me = s.loader;
    me.may_leave = 0;
    me.first = static_cast<Byte>(me.first + me.planned);
    me.planned = me.taken = 0;
    me.pushed = options_.queue ? 0 : options_.batches;
    wake_loader(s);
    me.leaving = 1;
    me.step = kAbandonLook;
    me.slot = 0;
    return true;
  }
  bool bury(State& s, int w) {
    if (s.workers[w].step != kDead || (options_.one_filler && w > 0)) return false;
    s.loader.step = kReclaim;
    s.loader.slot = 0;
    s.loader.incarnation = s.workers[w].incarnation;
    s.loader.dead_worker = static_cast<Byte>(w);
    return true;
  }

  void fail(const std::string& what, const State& s) {
    if (!fault_.empty()) return;
    fault_ = what + ": loader at step " + std::to_string(s.loader.step) + ", taken " +
             std::to_string(s.loader.taken);
    for (const Slot& slot : s.slots) {
      fault_ += "; slot in state " + std::to_string(slot.state) + " with batch " +
                std::to_string(slot.sequence) + ", content " + std::to_string(slot.content);
    }
    for (const Worker& worker : s.workers) fault_ += "; worker at step " + std::to_string(worker.step);
  }

  const ProtocolOptions options_;
  std::string fault_;  // the first
};

}  // namespace hopfeed::slot_protocol
