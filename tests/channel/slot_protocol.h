// F36: the protocol of the slots, access by access. slot_model_test.cc runs the real SlotPool and WorkerPort,
// but each of their calls in one piece; here every single load, store and compare-and-swap of both sides is a
// step of its own, and a worker may die before any of them. All interleavings of a loader and two workers are
// explored, each state once. In each of them
//   - a word changes only as the table says (slot_transitions.h),
//   - every batch that is planned and not taken lies in exactly one slot,
//   - what is handed out is the batch whose turn it is, whole,
//   - and however it came there, all batches can still be taken without further accidents: nothing deadlocks.
// To show that these catch what they shall, the protocol can be run with one of its rules broken.
#pragma once
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/channel/slot_protocol_state.h"
#include "tests/channel/slot_transitions.h"

namespace hopfeed::slot_protocol {

class Protocol {
 public:
  explicit Protocol(const ProtocolOptions& options) : options_(options) {}

  /// The first fault found, or nothing.
  std::string explore() {
    State start;
    for (Worker& worker : start.workers) worker.incarnation = start.loader.next_incarnation++;
    start.loader.crashes_left = options_.crashes;
    start.loader.may_leave = options_.may_leave;
    visit(start);
    for (std::size_t at = 0; at < states_.size() && fault_.empty(); ++at) {
      const State state = states_[at];
      check(state);
      for (int choice = 0; choice < kChoices && fault_.empty(); ++choice) {
        State next = state;
        if (!step(next, choice) || std::memcmp(&next, &state, sizeof(State)) == 0) continue;
        const std::uint32_t to = visit(next);
        if (!is_accident(choice)) steps_.push_back({static_cast<std::uint32_t>(at), to});
      }
    }
    if (fault_.empty()) check_that_all_can_finish();
    return fault_;
  }
  std::size_t states() const { return states_.size(); }

 private:
  // Choices: a step of each worker, the death of each, then what the loader does.
  static constexpr int kLoaderGoesOn = 2 * kWorkers, kPump = kLoaderGoesOn, kTake = kPump + 1,
                       kRelease = kTake + 1, kLeave = kRelease + 1, kBury = kLeave + 1,
                       kChoices = kBury + kWorkers;
  static bool is_accident(int choice) {
    return (choice >= kWorkers && choice < 2 * kWorkers) || choice == kLeave;
  }

  bool step(State& s, int choice) {
    if (choice < kWorkers) return step_worker(s, choice);
    if (choice < 2 * kWorkers) return crash(s, choice - kWorkers);
    if (s.loader.step != kIdle) return choice == kLoaderGoesOn && step_loader(s);
    switch (choice) {
      case kPump:
        s.loader.step = kSweep;
        s.loader.slot = 0;
        return true;
      case kTake:
        return take(s);
      case kRelease:
        return release(s);
      case kLeave:
        return leave(s);
      default:
        return bury(s, choice - kBury);
    }
  }

  /// Every change of a word goes through here.
  void set_word(State& s, Byte slot, Actor by, SlotState to, Byte owner, Byte generation) {
    const Transition transition{.from = static_cast<SlotState>(s.slots[slot].state), .to = to, .by = by};
    if (!in_table(transition)) fail("a transition that is not in the table", s);
    s.slots[slot].state = static_cast<Byte>(to);
    s.slots[slot].owner = owner;
    s.slots[slot].generation = generation;
  }
  static bool is(const Slot& slot, SlotState state) { return slot.state == static_cast<Byte>(state); }

  // ---- a worker (worker_port.cc, worker_main.cc)

  bool crash(State& s, int w) {
    if (s.loader.crashes_left == 0 || s.workers[w].step == kDead) return false;
    if (options_.bug == Bug::kReclaimFromLiving && s.loader.step != kIdle) return false;
    --s.loader.crashes_left;
    if (options_.bug == Bug::kReclaimFromLiving) {  // taken for dead, and it goes on
      s.loader.incarnation = s.workers[w].incarnation;
      s.loader.step = kReclaim;
      s.loader.slot = 0;
      return true;
    }
    s.workers[w] = {.step = kDead, .incarnation = s.workers[w].incarnation};
    return true;
  }

  bool step_worker(State& s, int w) {
    Worker& me = s.workers[w];
    Slot& slot = s.slots[me.slot];
    switch (me.step) {
      case kLookAtWord:
        me.generation = slot.generation;
        if (!is(slot, SlotState::kPlanned)) return look_at_next(me);
        me.step = kLookAtBatch;
        return true;
      case kLookAtBatch:
        if (me.best == kNobody || slot.sequence < me.best_sequence) {
          me.best = me.slot;
          me.best_generation = me.generation;
          me.best_sequence = slot.sequence;
        }
        me.step = kLookAtWord;
        return look_at_next(me);
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
        me.step = kLookAbandoned;
        return true;
      case kLookAbandoned:
        me.writes = slot.abandoned == 0;
        me.step = me.writes ? kLookGranted : kPublish;
        return true;
      case kLookGranted:
        me.step =
            slot.granted ? (options_.bug == Bug::kReadyBeforeWhole ? kPublish : kWriteHalf) : kLookAbandoned;
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
          me = {.step = kLookAtWord, .incarnation = me.incarnation};
        return true;
      }
      default:
        return false;
    }
  }

  /// Behind the last slot: claims the lowest that it found, or looks again.
  static bool look_at_next(Worker& me) {
    me.generation = 0;
    if (++me.slot < kSlots) return true;
    const Worker found = me;
    me = {.step = kLookAtWord, .incarnation = found.incarnation};
    if (found.best == kNobody) return true;
    me.step = kClaim;
    me.slot = found.best;
    me.generation = found.best_generation;
    me.sequence = found.best_sequence;
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
        if (is(slot, SlotState::kFilling) && !slot.abandoned && slot.wanted > slot.granted) slot.granted = 1;
        return next_slot(me, kPlanRecord);
      case kPlanRecord:
        if (!is(slot, SlotState::kFree) || me.planned == options_.batches) return next_slot(me, kIdle);
        if (options_.bug == Bug::kWordBeforeRecord) {
          plan_word(s);
        } else {
          plan_record(s);
        }
        me.step = kPlanWord;
        return true;
      case kPlanWord:
        if (options_.bug == Bug::kWordBeforeRecord) {
          plan_record(s);
        } else {
          plan_word(s);
        }
        ++me.planned;
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

  /// The same step for the next slot; behind the last one `then`, from the first slot.
  static bool next_slot(Loader& me, LoaderStep then) {
    me.generation = 0;
    if (++me.slot < kSlots) return true;
    me.slot = 0;
    me.step = then;
    if (then == kIdle) me.leaving = 0;
    return true;
  }
  /// Behind the last slot the dead worker's replacement starts.
  bool next_reclaim(State& s) {
    Loader& me = s.loader;
    next_slot(me, kIdle);
    if (me.step != kIdle) return true;
    if (me.dead_worker != kNobody)
      s.workers[me.dead_worker] = {.step = kLookAtWord, .incarnation = me.next_incarnation++};
    me.dead_worker = kNobody;
    me.incarnation = 0;
    return true;
  }

  bool take(State& s) {
    for (Byte i = 0; i < kSlots; ++i) {
      const Slot& slot = s.slots[i];
      const Byte sequence = static_cast<Byte>(s.loader.first + s.loader.taken);
      if (!is(slot, SlotState::kReady) || slot.abandoned || slot.sequence != sequence) continue;
      if (slot.content != 2 * sequence + 2) fail("a batch that is torn or another one", s);
      set_word(s, i, Actor::kLoader, SlotState::kHeld, 0, slot.generation);
      ++s.loader.taken;
      return true;
    }
    return false;
  }
  bool release(State& s) {
    for (Byte i = 0; i < kSlots; ++i) {
      if (!is(s.slots[i], SlotState::kHeld)) continue;
      if (s.slots[i].content % 2 != 0 || s.slots[i].content == 0) fail("written while it was viewed", s);
      free_slot(s, i);
      return true;
    }
    return false;
  }
  bool leave(State& s) {
    if (!s.loader.may_leave) return false;
    Loader& me = s.loader;
    me.may_leave = 0;
    me.first = static_cast<Byte>(me.first + me.planned);
    me.planned = me.taken = 0;
    me.leaving = 1;
    me.step = kAbandonLook;
    me.slot = 0;
    return true;
  }
  bool bury(State& s, int w) {
    if (s.workers[w].step != kDead) return false;
    s.loader.step = kReclaim;
    s.loader.slot = 0;
    s.loader.incarnation = s.workers[w].incarnation;
    s.loader.dead_worker = static_cast<Byte>(w);
    return true;
  }

  // ---- what must hold

  void check(const State& s) {
    if (s.loader.step != kIdle) return;
    for (Byte batch = s.loader.taken; batch < s.loader.planned; ++batch) {
      int places = 0;
      for (const Slot& slot : s.slots) {
        const bool pending =
            is(slot, SlotState::kPlanned) || is(slot, SlotState::kFilling) || is(slot, SlotState::kReady);
        places += pending && !slot.abandoned && slot.sequence == s.loader.first + batch;
      }
      if (places != 1) fail(places == 0 ? "a batch without a slot" : "a batch in two slots", s);
    }
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

  std::uint32_t visit(const State& state) {
    const auto [it, fresh] = numbers_.try_emplace(XXH3_64bits(&state, sizeof(state)), states_.size());
    if (fresh) states_.push_back(state);
    return it->second;
  }

  /// Backwards from the states in which all is taken, along steps that are no accidents.
  void check_that_all_can_finish() {
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.to < b.to; });
    std::vector<std::uint32_t> open;
    std::vector<bool> finishes(states_.size());
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (states_[i].loader.taken < options_.batches) continue;
      finishes[i] = true;
      open.push_back(i);
    }
    while (!open.empty()) {
      const std::uint32_t to = open.back();
      open.pop_back();
      auto it = std::lower_bound(steps_.begin(), steps_.end(), to,
                                 [](const Step& step, std::uint32_t n) { return step.to < n; });
      for (; it != steps_.end() && it->to == to; ++it) {
        if (finishes[it->from]) continue;
        finishes[it->from] = true;
        open.push_back(it->from);
      }
    }
    const auto stuck = std::find(finishes.begin(), finishes.end(), false);
    if (stuck != finishes.end())
      fail("no way to the end", states_[static_cast<std::size_t>(stuck - finishes.begin())]);
  }

  struct Step {
    std::uint32_t from, to;
  };

  const ProtocolOptions options_;
  std::vector<State> states_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // of the states, by hash
  std::vector<Step> steps_;                                   // without accidents
  std::string fault_;
};

}  // namespace hopfeed::slot_protocol
