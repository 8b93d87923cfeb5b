// This is the protocol of the slots, access by access (F36). slot_model_test.cc runs the real SlotPool and
// WorkerPort, but each of their calls in one piece; here every single load, store and compare-and-swap of
// both sides is a step of its own, and a worker may die before any of them. All interleavings of a loader and
// two workers are explored, each state once; with bells also those of two event loops, a filler's with two
// claims and the loader's, each asleep until its eventfd is readable. In each of them
//   - a word changes only as the table says (slot_transitions.h),
//   - every batch that is planned and not taken lies in exactly one slot,
//   - what is handed out is the batch of its name, whole, once, and in sequence where that is asked for,
//   - and however it came there, all batches can still be taken without further accidents: nothing deadlocks,
//     and nobody sleeps through what it should do.
// To show that these catch what they shall, the protocol can be run with one of its rules broken.
#pragma once
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/channel/slot_protocol_state.h"
#include "tests/channel/slot_protocol_steps.h"

namespace hopfeed::slot_protocol {

class Protocol : private Steps {
 public:
  using Steps::Steps;

  /// Returns the first fault found, or nothing.
  std::string explore() {
    State start;
    for (Worker& worker : start.workers)
      worker.incarnation = options_.one_filler ? Byte{1} : start.loader.next_incarnation++;
    if (options_.one_filler) ++start.loader.next_incarnation;
    start.loader.pushed = options_.queue ? 0 : options_.batches;
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
  // Choices are a step of each worker, the death of each, then what the loader and the event loops do.
  static constexpr int kLoaderGoesOn = 2 * kWorkers, kPump = kLoaderGoesOn, kTake = kPump + 1,
                       kRelease = kTake + kSlots, kLeave = kRelease + 1, kPush = kLeave + 1,
                       kLoaderListens = kPush + 1, kLoaderWakes = kLoaderListens + 1,
                       kFillersListen = kLoaderWakes + 1, kFillersWake = kFillersListen + 1,
                       kBury = kFillersWake + 1, kChoices = kBury + kWorkers;
  static bool is_accident(int choice) {
    return (choice >= kWorkers && choice < 2 * kWorkers) || choice == kLeave;
  }

  bool step(State& s, int choice) {
    if (choice < kWorkers) return step_worker(s, choice);
    if (choice < 2 * kWorkers) return crash(s, choice - kWorkers);
    if (choice == kFillersListen) return fillers_listen(s);
    if (choice == kFillersWake) return fillers_wake(s);
    if (s.loader.step != kIdle) return choice == kLoaderGoesOn && step_loader(s);
    if (choice >= kTake && choice < kTake + kSlots) return take(s, static_cast<Byte>(choice - kTake));
    switch (choice) {
      case kPump:
        if (options_.bells) return false;  // it listens first
        s.loader.step = kSweep;
        s.loader.slot = 0;
        return true;
      case kRelease:
        return release(s);
      case kLeave:
        return leave(s);
      case kPush:
        return push(s);
      case kLoaderListens:
        return loader_listens(s);
      case kLoaderWakes:
        return loader_wakes(s);
      default:
        return bury(s, choice - kBury);
    }
  }

  // ---- what must hold

  void check(const State& s) {
    if (s.loader.step != kIdle) return;
    for (Byte batch = 0; batch < s.loader.planned; ++batch) {
      if ((s.loader.taken >> batch & 1) != 0) continue;
      int places = 0;
      for (const Slot& slot : s.slots) {
        const bool pending =
            is(slot, SlotState::kPlanned) || is(slot, SlotState::kFilling) || is(slot, SlotState::kReady);
        places += pending && !slot.abandoned && slot.sequence == s.loader.first + batch;
      }
      if (places != 1) fail(places == 0 ? "a batch without a slot" : "a batch in two slots", s);
    }
  }

  std::uint32_t visit(const State& state) {
    const auto [it, fresh] = numbers_.try_emplace(XXH3_64bits(&state, sizeof(state)), states_.size());
    if (fresh) states_.push_back(state);
    return it->second;
  }

  /// Goes backwards from the states in which all is taken, along steps that are no accidents.
  void check_that_all_can_finish() {
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.to < b.to; });
    std::vector<std::uint32_t> open;
    std::vector<bool> finishes(states_.size());
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (std::popcount(states_[i].loader.taken) < options_.batches) continue;
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

  std::vector<State> states_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // of the states, by hash
  std::vector<Step> steps_;                                   // without accidents
};

}  // namespace hopfeed::slot_protocol
