// SlotModelExplorer explores all interleavings of a small pool, with the real SlotPool, WorkerPort and
// QueuePlan over heap memory: fillers that may die between any two calls, a planner that plans, grants, hands
// out, takes back and leaves an epoch, and, where asked for, both asleep on their bells. States are explored
// depth first; a state is the bytes of the channel, the pool, the queue, the bells and where each filler and
// each of its claims stands.
//
// A filler with several claims is an event loop: each claim goes on by itself, and a death is the death of
// all. With bells there is one such filler, and the planner is an event loop too; each says that it listens,
// looks, and sleeps where there is nothing to do, until its bell is readable.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "channel/batch_plan.h"
#include "channel/bell.h"
#include "channel/channel_view.h"
#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "channel/worker_port.h"
#include "tests/channel/slot_transitions.h"

namespace hopfeed {

struct ModelOptions {
  std::uint32_t slots = 2, workers = 2;
  std::vector<std::size_t> pages;  // size of each batch's block
  std::size_t channel_pages = 3;
  std::size_t largest_pages = 4;
  int crashes = 0;         // how many deaths may happen
  int leave_after = -1;    // the epoch may be left from this many batches taken on, once
  std::size_t hold = 1;    // batches that the trainer views at a time
  std::size_t claims = 1;  // claims that each filler may hold
  bool any_order = false;  // the trainer takes whichever batch is READY
  bool queue = false;  // each batch is asked for at any moment, and the first may be withdrawn at any moment
  bool bells = false;  // filler and planner sleep on their bells; of one filler
  bool looks_before_listening = false;  // the filler's rule broken
};

enum class Phase : std::uint8_t { kIdle, kFound, kClaimed, kAsked, kGranted, kTorn, kWritten };
enum class Ear : std::uint8_t { kAwake, kListening, kSwept, kPumped, kAsleep };

struct ModelClaim {
  Phase phase = Phase::kIdle;
  WorkerPort::Candidate candidate;
  Claim claim;
};

struct ModelFiller {
  bool dead = false;
  Ear ear = Ear::kAwake;
  std::uint32_t incarnation = 0;
  std::vector<ModelClaim> claims;
};

/// A ModelState is all that makes up a state but the bytes of the channel and what the bells say.
struct ModelState {
  SlotPool pool;
  QueuePlan queue;
  std::vector<ModelFiller> fillers;
  std::vector<std::uint32_t> held;
  std::uint64_t first_sequence = 0, pushed = 0;  // of the running epoch
  std::uint32_t taken = 0, withdrawn = 0;        // bits: batches of it
  std::uint32_t last_incarnation = 0;
  int crashes_left = 0;
  bool may_leave = false;
  Ear planner = Ear::kAwake;
};

class SlotModelExplorer {
 public:
  explicit SlotModelExplorer(const ModelOptions& options)
      : options_(options),
        shape_{.num_slots = options.slots,
               .num_workers = options.workers,
               .slot_stride = options.largest_pages * kPageBytes},
        memory_(make_heap_memory(ChannelView::bytes_needed(shape_))),
        view_(ChannelView::format(*memory_, shape_)) {}

  void explore() {
    ModelState state{.pool = SlotPool(*memory_, view_,
                                      {.channel_size = options_.channel_pages * kPageBytes,
                                       .allowance = options_.largest_pages * kPageBytes},
                                      {.fillers = fillers_bell_.fd(), .planner = planner_bell_.fd()}),
                     .queue = QueuePlan(),
                     .fillers = std::vector<ModelFiller>(options_.workers),
                     .held = {}};
    state.crashes_left = options_.crashes;
    state.may_leave = options_.leave_after >= 0;
    for (std::uint32_t w = 0; w < options_.workers; ++w) start_filler(state, w);
    while (!options_.queue && push(state)) {
    }
    visit(state);
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }
  /// Returns the first state without a way on in which batches are missing; empty: none.
  const std::string& deadlock() const { return deadlock_; }

 private:
  // ---- fillers

  bool step_claim(ModelState& s, std::uint32_t w, ModelClaim& c) {
    if (s.fillers[w].dead || s.fillers[w].ear != Ear::kAwake) return false;
    WorkerPort port(view_, w, planner_bell_.fd());  // has the incarnation of the record
    switch (c.phase) {
      case Phase::kIdle: {
        const auto candidate = port.find_planned();
        if (!candidate) return false;
        c.candidate = *candidate;
        c.phase = Phase::kFound;
        return true;
      }
      case Phase::kFound: {
        const auto claim = port.take(c.candidate);
        c.phase = claim ? Phase::kClaimed : Phase::kIdle;
        if (!claim) return true;
        EXPECT_EQ(claim->batch, batch(claim->batch.sequence));
        c.claim = *claim;
        return true;
      }
      case Phase::kClaimed:
        port.ask(c.claim, block_bytes(c.claim.batch.sequence));
        c.phase = Phase::kAsked;
        return true;
      case Phase::kAsked:
        switch (port.grant(c.claim, block_bytes(c.claim.batch.sequence))) {
          case WorkerPort::Grant::kWaiting:
            return false;
          case WorkerPort::Grant::kGranted:
            c.phase = Phase::kGranted;
            return true;
          case WorkerPort::Grant::kAbandoned:
            EXPECT_TRUE(port.publish(c.claim, 0));
            c.phase = Phase::kIdle;
            return true;
        }
        return false;
      case Phase::kGranted:
        stamp(c.claim, 0);
        c.phase = Phase::kTorn;
        if (!options_.bells) return true;
        [[fallthrough]];  // in one step: bells have no part in it
      case Phase::kTorn:
        stamp(c.claim, block_bytes(c.claim.batch.sequence) - 8);
        c.phase = Phase::kWritten;
        return true;
      case Phase::kWritten:
        EXPECT_TRUE(port.publish(c.claim, block_bytes(c.claim.batch.sequence)));
        c.phase = Phase::kIdle;
        return true;
    }
    return false;
  }

  bool nothing_to_fill(ModelState& s, std::uint32_t w) {
    WorkerPort port(view_, w, planner_bell_.fd());
    for (ModelClaim& c : s.fillers[w].claims) {
      if (c.phase == Phase::kIdle && port.find_planned()) return false;
      if (c.phase == Phase::kAsked &&
          port.grant(c.claim, block_bytes(c.claim.batch.sequence)) != WorkerPort::Grant::kWaiting)
        return false;
    }
    return true;
  }
  /// Takes a step of the filler's event loop, when none of its claims has anything at hand.
  bool step_ear(ModelState& s, std::uint32_t w) {
    ModelFiller& filler = s.fillers[w];
    SharedEvent& event = view_.control().work_event;
    if (filler.dead) return false;
    switch (filler.ear) {
      case Ear::kAwake:
        for (const ModelClaim& c : filler.claims)
          if (c.phase != Phase::kIdle && c.phase != Phase::kAsked) return false;
        if (options_.looks_before_listening) {
          if (!nothing_to_fill(s, w)) return false;
        } else {
          event.listen();
        }
        filler.ear = Ear::kListening;
        return true;
      case Ear::kListening:
        if (options_.looks_before_listening || nothing_to_fill(s, w)) {
          event.listen();
          filler.ear = Ear::kAsleep;
          return true;
        }
        wake(event, fillers_bell_, filler.ear);
        return true;
      default:
        if (!readable(fillers_bell_)) return false;
        wake(event, fillers_bell_, filler.ear);
        return true;
    }
  }

  bool crash(ModelState& s, std::uint32_t w) {
    if (s.crashes_left == 0 || s.fillers[w].dead) return false;
    --s.crashes_left;
    s.fillers[w].dead = true;
    return true;
  }
  /// Does the keeper's part: all slots go back first, then a replacement starts.
  bool bury(ModelState& s, std::uint32_t w) {
    if (!s.fillers[w].dead) return false;
    s.pool.reclaim(s.fillers[w].incarnation);
    start_filler(s, w);
    return true;
  }

  // ---- the planner; fillers may go on between any two of these

  bool sweep(ModelState& s) {
    s.pool.sweep();
    return true;
  }
  bool grant(ModelState& s) {
    s.pool.serve_grants();
    return true;
  }
  bool plan(ModelState& s) {
    if (options_.queue) return s.pool.plan_from(s.queue) > 0;
    if (s.pool.free_order().empty()) return false;
    const auto next = s.queue.next();
    return next && s.pool.plan(*next);
  }
  bool take(ModelState& s, std::uint32_t slot) {
    if (s.held.size() == options_.hold || s.planner != Ear::kAwake) return false;
    const std::uint64_t sequence = view_.slot(slot).sequence;
    const auto finished = s.pool.find_ready(sequence);
    if (!finished || finished->slot != slot) return false;
    if (!options_.any_order && sequence != next_in_order(s)) return false;
    EXPECT_LE(s.pool.find_any_ready()->sequence, sequence);
    EXPECT_EQ(finished->block.size(), block_bytes(sequence));
    for (const std::size_t offset : {std::size_t{0}, finished->block.size() - 8}) {
      std::uint64_t stamped = 0;
      std::memcpy(&stamped, finished->block.data() + offset, 8);
      EXPECT_EQ(stamped, sequence + 1);
    }
    s.pool.take(finished->slot);
    s.held.push_back(finished->slot);
    s.taken |= bit(s, sequence);
    return true;
  }
  /// Does what the planner's event loop does before it sleeps.
  bool listen(ModelState& s) {
    SharedEvent& event = view_.control().loader_event;
    switch (s.planner) {
      case Ear::kAwake:
        event.listen();
        s.planner = Ear::kListening;
        return true;
      case Ear::kListening:
        s.pool.sweep();
        s.planner = Ear::kSwept;
        return true;
      case Ear::kSwept:
        s.pool.serve_grants();
        s.pool.plan_from(s.queue);
        s.planner = Ear::kPumped;
        return true;
      case Ear::kPumped:
        s.planner = Ear::kAsleep;
        if (s.held.size() < options_.hold && s.pool.find_any_ready()) wake(event, planner_bell_, s.planner);
        return true;
      case Ear::kAsleep:
        if (!readable(planner_bell_)) return false;
        wake(event, planner_bell_, s.planner);
        return true;
    }
    return false;
  }

  // ---- what others ask of it, which also wakes it

  bool release(ModelState& s) {
    if (s.held.empty()) return false;
    s.pool.release(s.held.front());
    s.held.erase(s.held.begin());
    return wake_planner(s);
  }
  bool leave(ModelState& s) {
    if (!s.may_leave || std::popcount(s.taken) < options_.leave_after) return false;
    s.may_leave = false;
    s.pool.abandon();
    s.first_sequence += s.pushed;
    s.pushed = s.taken = s.withdrawn = 0;
    s.queue = QueuePlan(s.first_sequence);
    while (!options_.queue && push(s)) {
    }
    return wake_planner(s);
  }
  bool push(ModelState& s) {
    if (s.pushed == options_.pages.size()) return false;
    const PlannedBatch next = batch(s.first_sequence + s.pushed++);
    EXPECT_EQ(s.queue.push({.epoch = next.epoch, .first = next.first, .count = next.count, .job = next.job}),
              next.sequence);
    return wake_planner(s);
  }
  bool withdraw(ModelState& s) {
    if (!options_.queue || s.pushed == 0 || ((s.taken | s.withdrawn) & 1) != 0) return false;
    if (!s.queue.withdraw(s.first_sequence)) s.pool.abandon(s.first_sequence);
    s.withdrawn |= 1;
    return wake_planner(s);
  }
  bool wake_planner(ModelState& s) {
    if (s.planner != Ear::kAwake) wake(view_.control().loader_event, planner_bell_, s.planner);
    return true;
  }

  // ---- exploring

  enum class By { kFiller, kAccident, kOthers };
  struct Choice {
    By by;
    bool stepped;
  };
  /// Takes choice `number` in this state; none behind the last.
  std::optional<Choice> step(ModelState& s, std::uint32_t number) {
    const auto claims = static_cast<std::uint32_t>(options_.claims), workers = options_.workers;
    if (number < workers * claims)
      return Choice{By::kFiller,
                    step_claim(s, number / claims, s.fillers[number / claims].claims[number % claims])};
    number -= workers * claims;
    if (number < workers) return Choice{By::kAccident, crash(s, number)};
    number -= workers;
    if (number < workers) return Choice{By::kOthers, bury(s, number)};
    number -= workers;
    if (number < options_.slots) return Choice{By::kOthers, take(s, number)};
    const bool loops = options_.bells;  // then it does these before it sleeps
    switch (number - options_.slots) {
      case 0:
        return Choice{By::kOthers, !loops && sweep(s)};
      case 1:
        return Choice{By::kOthers, !loops && grant(s)};
      case 2:
        return Choice{By::kOthers, !loops && plan(s)};
      case 3:
        return Choice{By::kOthers, release(s)};
      case 4:
        return Choice{By::kAccident, leave(s)};
      case 5:
        return Choice{By::kOthers, options_.queue && push(s)};
      case 6:
        return Choice{By::kAccident, withdraw(s)};
      case 7:
        return Choice{By::kOthers, options_.bells && listen(s)};
      case 8:
        return Choice{By::kOthers, options_.bells && step_ear(s, 0)};
      default:
        return {};
    }
  }

  void visit(const ModelState& state) {
    const std::string here = fingerprint(state);
    if (::testing::Test::HasFailure() || !deadlock_.empty() || !seen_.insert(here).second) return;
    check(state);
    const std::vector<std::byte> bytes(memory_->data(), memory_->data() + memory_->size());
    const bool fillers_rung = readable(fillers_bell_), planner_rung = readable(planner_bell_);
    bool something_happens = false;
    for (std::uint32_t number = 0;; ++number) {
      ModelState next = state;
      const std::vector<SlotWord> before = words();
      const std::optional<Choice> choice = step(next, number);
      if (!choice) break;
      check_transitions(before, choice->by == By::kFiller ? Actor::kWorker : Actor::kLoader);
      if (choice->stepped && fingerprint(next) != here) {
        something_happens |= choice->by != By::kAccident;  // which are no way out to count on
        visit(next);
      }
      std::memcpy(memory_->data(), bytes.data(), bytes.size());
      set(fillers_bell_, fillers_rung);
      set(planner_bell_, planner_rung);
    }
    if (something_happens) return;
    ++ends_;
    const std::uint32_t all = (1U << options_.pages.size()) - 1;
    if ((state.taken | state.withdrawn) != all && deadlock_.empty()) deadlock_ = describe(state);
  }

  std::vector<SlotWord> words() const {
    std::vector<SlotWord> all;
    for (std::uint32_t i = 0; i < options_.slots; ++i) all.push_back(word(i));
    return all;
  }
  void check_transitions(const std::vector<SlotWord>& before, Actor by) const;
  void check(const ModelState& s) const;
  std::string fingerprint(const ModelState& s) const;
  std::string describe(const ModelState& s) const;

  static bool readable(const Bell& bell) {
    pollfd poller{.fd = bell.fd(), .events = POLLIN, .revents = 0};
    return poll(&poller, 1, 0) == 1;
  }
  static void set(const Bell& bell, bool rung) {
    bell.drain();
    if (rung) ring(bell.fd());
  }
  static void wake(SharedEvent& event, const Bell& bell, Ear& ear) {
    event.stop_listening();
    bell.drain();
    ear = Ear::kAwake;
  }
  SlotWord word(std::uint32_t slot) const { return SlotWord::unpack(view_.slot(slot).word.load()); }
  /// Requests come in no order: later ones of earlier positions, of several jobs.
  static PlannedBatch batch(std::uint64_t sequence) {
    return {.sequence = sequence,
            .epoch = static_cast<std::int64_t>(sequence % 3),
            .first = 1'000 - 10 * static_cast<std::int64_t>(sequence),
            .count = 10,
            .job = static_cast<std::uint32_t>(sequence % 2)};
  }
  std::size_t block_bytes(std::uint64_t sequence) const {
    return options_.pages[sequence % options_.pages.size()] * kPageBytes;
  }
  static std::uint32_t bit(const ModelState& s, std::uint64_t sequence) {
    return 1U << (sequence - s.first_sequence);
  }
  static std::uint64_t next_in_order(const ModelState& s) {
    return s.first_sequence + static_cast<std::uint64_t>(std::countr_one(s.taken | s.withdrawn));
  }
  void stamp(const Claim& claim, std::size_t offset) {
    const std::uint64_t value = claim.batch.sequence + 1;
    std::memcpy(view_.slot_bytes(claim.slot, offset + 8).data() + offset, &value, 8);
  }
  void start_filler(ModelState& s, std::uint32_t w) {
    s.fillers[w] = {.incarnation = ++s.last_incarnation, .claims = std::vector<ModelClaim>(options_.claims)};
    view_.worker(w).incarnation.store(s.last_incarnation);
    view_.control().work_event.stop_listening();
  }

  const ModelOptions options_;
  const ChannelShape shape_;
  const Bell fillers_bell_, planner_bell_;
  std::unique_ptr<ChannelMemory> memory_;
  ChannelView view_;
  std::unordered_set<std::string> seen_;
  std::size_t ends_ = 0;
  std::string deadlock_;
};

}  // namespace hopfeed
