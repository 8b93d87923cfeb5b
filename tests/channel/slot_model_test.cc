// F36: all interleavings of a small pool: workers that may die between any two steps, a loader that plans,
// grants, hands out, takes back and leaves an epoch. The states are explored depth first with the real
// SlotPool and WorkerPort over heap memory; a state is the bytes of the channel, the pool and where each
// worker stands. In each of them
//   - a word has changed only as the table says (slot_transitions.h),
//   - every batch that is planned and not taken lies in exactly one slot,
//   - the memory granted is within channel_size + allowance,
//   - a trainer that holds nothing is never told that its batch cannot have memory,
//   - batches are taken in sequence, each with the bytes of its own,
//   - and something can happen until all batches are taken: nothing deadlocks.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "channel/channel_view.h"
#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "channel/worker_port.h"
#include "tests/channel/slot_transitions.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

struct ModelOptions {
  std::uint32_t slots = 2, workers = 2;
  std::vector<std::size_t> pages;  // size of each batch's block
  std::size_t channel_pages = 3;
  std::size_t largest_pages = 4;
  int crashes = 0;       // how many deaths may happen
  int leave_after = -1;  // the epoch may be left from this many batches taken on, once
  std::size_t hold = 1;  // batches that the trainer views at a time
};

enum class Phase : std::uint8_t { kIdle, kFound, kClaimed, kAsked, kGranted, kTorn, kWritten, kDead };

struct ModelWorker {
  Phase phase = Phase::kIdle;
  std::uint32_t incarnation = 0;
  WorkerPort::Candidate candidate;
  Claim claim;
};

/// All that makes up a state but the bytes of the channel.
struct ModelState {
  SlotPool pool;
  std::vector<ModelWorker> workers;
  std::vector<std::uint32_t> held;
  std::uint64_t first_sequence = 0, planned = 0, taken = 0;  // of the running epoch
  std::uint32_t last_incarnation = 0;
  int crashes_left = 0;
  bool may_leave = false;
};

class Model {
 public:
  explicit Model(const ModelOptions& options)
      : options_(options),
        shape_{.num_slots = options.slots,
               .num_workers = options.workers,
               .slot_stride = options.largest_pages * kPageBytes},
        memory_(make_heap_memory(ChannelView::bytes_needed(shape_))),
        view_(ChannelView::format(*memory_, shape_)) {}

  void explore() {
    ModelState state{.pool = SlotPool(*memory_, view_,
                                      {.channel_size = options_.channel_pages * kPageBytes,
                                       .allowance = options_.largest_pages * kPageBytes}),
                     .workers = std::vector<ModelWorker>(options_.workers),
                     .held = {}};
    state.crashes_left = options_.crashes;
    state.may_leave = options_.leave_after >= 0;
    for (std::uint32_t w = 0; w < options_.workers; ++w) start_worker(state, w);
    visit(state);
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  // One step of somebody. Returns false where it is not possible in this state.
  bool step_worker(ModelState& s, std::uint32_t w) {
    ModelWorker& worker = s.workers[w];
    WorkerPort port(view_, w, -1);  // has the incarnation of the record
    switch (worker.phase) {
      case Phase::kIdle: {
        const auto candidate = port.find_planned();
        if (!candidate) return false;
        worker.candidate = *candidate;
        worker.phase = Phase::kFound;
        return true;
      }
      case Phase::kFound: {
        const auto claim = port.take(worker.candidate);
        worker.phase = claim ? Phase::kClaimed : Phase::kIdle;
        if (claim) worker.claim = *claim;
        return true;
      }
      case Phase::kClaimed:
        port.ask(worker.claim, block_bytes(worker.claim.batch));
        worker.phase = Phase::kAsked;
        return true;
      case Phase::kAsked:
        switch (port.grant(worker.claim, block_bytes(worker.claim.batch))) {
          case WorkerPort::Grant::kWaiting:
            return false;
          case WorkerPort::Grant::kGranted:
            worker.phase = Phase::kGranted;
            return true;
          case WorkerPort::Grant::kAbandoned:
            EXPECT_TRUE(port.publish(worker.claim, 0));
            worker.phase = Phase::kIdle;
            return true;
        }
        return false;
      case Phase::kGranted:
        stamp(worker.claim, 0);
        worker.phase = Phase::kTorn;
        return true;
      case Phase::kTorn:
        stamp(worker.claim, block_bytes(worker.claim.batch) - 8);
        worker.phase = Phase::kWritten;
        return true;
      case Phase::kWritten:
        EXPECT_TRUE(port.publish(worker.claim, block_bytes(worker.claim.batch)));
        worker.phase = Phase::kIdle;
        return true;
      case Phase::kDead:  // seen by the supervisor: the slots go back first, then a replacement starts
        s.pool.reclaim(worker.incarnation);
        start_worker(s, w);
        return true;
    }
    return false;
  }

  bool crash(ModelState& s, std::uint32_t w) {
    if (s.crashes_left == 0 || s.workers[w].phase == Phase::kDead) return false;
    --s.crashes_left;
    s.workers[w].phase = Phase::kDead;
    return true;
  }

  // What the loader does between two looks at the channel, in three steps: workers may go on in between.
  bool sweep(ModelState& s) {
    s.pool.sweep();
    return true;
  }
  bool grant(ModelState& s) {
    s.pool.serve_grants();
    return true;
  }
  bool plan(ModelState& s) {
    if (s.planned == options_.pages.size() || !s.pool.plan(batch(s.first_sequence + s.planned))) return false;
    ++s.planned;
    return true;
  }

  bool take(ModelState& s) {
    if (s.held.size() == options_.hold) return false;
    const std::uint64_t sequence = s.first_sequence + s.taken;
    const auto finished = s.pool.find_ready(sequence);
    if (!finished) return false;
    EXPECT_EQ(finished->block.size(), block_bytes(batch(sequence)));
    for (const std::size_t offset : {std::size_t{0}, finished->block.size() - 8}) {
      std::uint64_t stamped = 0;
      std::memcpy(&stamped, finished->block.data() + offset, 8);
      EXPECT_EQ(stamped, sequence + 1);
    }
    s.pool.take(finished->slot);
    s.held.push_back(finished->slot);
    ++s.taken;
    return true;
  }

  bool release(ModelState& s) {
    if (s.held.empty()) return false;
    s.pool.release(s.held.front());
    s.held.erase(s.held.begin());
    return true;
  }

  bool leave(ModelState& s) {
    if (!s.may_leave || s.taken < static_cast<std::uint64_t>(options_.leave_after)) return false;
    s.may_leave = false;
    s.pool.abandon();
    s.first_sequence += s.planned;
    s.planned = s.taken = 0;
    return true;
  }

  // ---- exploring

  bool step(ModelState& s, std::uint32_t number) {
    if (number < options_.workers) return step_worker(s, number);
    if (number < 2 * options_.workers) return crash(s, number - options_.workers);
    switch (number - 2 * options_.workers) {
      case 0:
        return sweep(s);
      case 1:
        return grant(s);
      case 2:
        return plan(s);
      case 3:
        return take(s);
      case 4:
        return release(s);
      default:
        return leave(s);
    }
  }

  void visit(const ModelState& state) {
    if (::testing::Test::HasFailure() || !seen_.insert(fingerprint(state)).second) return;
    check(state);
    const std::vector<std::byte> bytes(memory_->data(), memory_->data() + memory_->size());
    const std::string here = fingerprint(state);
    bool something_happens = false;
    for (std::uint32_t number = 0; number < 2 * options_.workers + 6; ++number) {
      ModelState next = state;
      const std::vector<SlotWord> before = words();
      const bool stepped = step(next, number);
      const bool by_worker = number < options_.workers && state.workers[number].phase != Phase::kDead;
      check_transitions(before, by_worker ? Actor::kWorker : Actor::kLoader);
      if (stepped && fingerprint(next) != here) {
        const bool is_crash = number >= options_.workers && number < 2 * options_.workers,
                   leaves = number == 2 * options_.workers + 5;
        something_happens |= !is_crash && !leaves;  // neither is a way out to count on
        visit(next);
      }
      std::memcpy(memory_->data(), bytes.data(), bytes.size());
    }
    if (something_happens) return;
    ++ends_;
    EXPECT_EQ(state.taken, options_.pages.size()) << "deadlock: " << describe(state);
  }

  std::vector<SlotWord> words() const {
    std::vector<SlotWord> all;
    for (std::uint32_t i = 0; i < options_.slots; ++i) all.push_back(word(i));
    return all;
  }

  void check_transitions(const std::vector<SlotWord>& before, Actor by) const {
    for (std::uint32_t i = 0; i < options_.slots; ++i) {
      const SlotWord after = word(i);
      EXPECT_TRUE(after == before[i] || in_table({.from = before[i].state, .to = after.state, .by = by}))
          << "slot " << i << " from " << static_cast<int>(before[i].state) << " to "
          << static_cast<int>(after.state);
    }
  }

  void check(const ModelState& s) const {
    EXPECT_LE(s.pool.granted(), (options_.channel_pages + options_.largest_pages) * kPageBytes)
        << describe(s);
    EXPECT_FALSE(s.held.empty() && s.pool.stuck(s.first_sequence + s.taken)) << describe(s);
    for (std::uint64_t sequence = s.first_sequence + s.taken; sequence < s.first_sequence + s.planned;
         ++sequence) {
      int slots = 0;
      for (std::uint32_t i = 0; i < options_.slots; ++i) {
        const SlotState state = word(i).state;
        const bool pending =
            state == SlotState::kPlanned || state == SlotState::kFilling || state == SlotState::kReady;
        slots += pending && view_.slot(i).abandoned == 0 && view_.slot(i).sequence == sequence;
      }
      EXPECT_EQ(slots, 1) << "batch " << sequence << " of " << describe(s);
    }
  }

  /// What the future depends on. Generations and incarnations only grow, so they count only by whether a
  /// worker's copy of a word still is the slot's word.
  std::string fingerprint(const ModelState& s) const {
    std::string key;
    auto add = [&key](std::uint64_t value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (std::uint32_t i = 0; i < options_.slots; ++i) {
      const SlotRecord& record = view_.slot(i);
      std::uint64_t owner = 99;
      for (std::uint32_t w = 0; w < options_.workers; ++w) {
        if (word(i).state == SlotState::kFilling && s.workers[w].incarnation == word(i).owner) owner = w;
      }
      add(static_cast<std::uint64_t>(word(i).state) | owner << 8 | std::uint64_t{record.abandoned} << 16 |
          record.sequence << 24);
      add(record.granted << 32 | record.wanted);
    }
    for (const ModelWorker& worker : s.workers) {
      const bool found = worker.phase == Phase::kFound,
                 busy = worker.phase > Phase::kFound && worker.phase != Phase::kDead;
      const std::uint32_t slot = found ? worker.candidate.slot : busy ? worker.claim.slot : 99;
      const bool current = found && view_.slot(slot).word == worker.candidate.word;
      add(static_cast<std::uint64_t>(worker.phase) | std::uint64_t{slot} << 8 | std::uint64_t{current} << 16);
    }
    for (std::uint32_t slot : s.held) add(slot);
    for (std::uint32_t slot : s.pool.free_order()) add(100 + slot);
    add(s.first_sequence << 32 | s.planned << 16 | s.taken);
    add(static_cast<std::uint64_t>(s.crashes_left) << 1 | s.may_leave);
    return key;
  }

  std::string describe(const ModelState& s) const {
    std::string text =
        "taken " + std::to_string(s.taken) + " planned " + std::to_string(s.planned) + "; slots";
    for (std::uint32_t i = 0; i < options_.slots; ++i) {
      text += " [state " + std::to_string(static_cast<int>(word(i).state)) + " sequence " +
              std::to_string(view_.slot(i).sequence) + " granted " +
              std::to_string(view_.slot(i).granted / kPageBytes) + " wanted " +
              std::to_string(view_.slot(i).wanted / kPageBytes) + "]";
    }
    for (const ModelWorker& worker : s.workers)
      text += " worker in phase " + std::to_string(static_cast<int>(worker.phase));
    return text;
  }

  SlotWord word(std::uint32_t slot) const { return SlotWord::unpack(view_.slot(slot).word.load()); }
  PlannedBatch batch(std::uint64_t sequence) const {
    return {.sequence = sequence, .epoch = 0, .first = 10 * static_cast<std::int64_t>(sequence), .count = 10};
  }
  std::size_t block_bytes(const PlannedBatch& batch) const {
    return options_.pages[batch.sequence % options_.pages.size()] * kPageBytes;
  }
  void stamp(const Claim& claim, std::size_t offset) {
    const std::uint64_t value = claim.batch.sequence + 1;
    std::memcpy(view_.slot_bytes(claim.slot, offset + 8).data() + offset, &value, 8);
  }
  void start_worker(ModelState& s, std::uint32_t w) {
    s.workers[w] = {.phase = Phase::kIdle, .incarnation = ++s.last_incarnation, .candidate = {}, .claim = {}};
    view_.worker(w).incarnation.store(s.last_incarnation);
  }

  const ModelOptions options_;
  const ChannelShape shape_;
  std::unique_ptr<ChannelMemory> memory_;
  ChannelView view_;
  std::unordered_set<std::string> seen_;
  std::size_t ends_ = 0;
};

class SlotModel : public testing::WatchedTest<300> {
 protected:
  void explore(const ModelOptions& options) {
    Model model(options);
    model.explore();
    RecordProperty("states", std::to_string(model.states()));
    EXPECT_GT(model.states(), 1'000U);  // it did explore
    EXPECT_GT(model.ends(), 0U);
  }
};

TEST_F(SlotModel, TwoDeathsAtAnyTwoSteps_EveryBatchArrivesOnce) {
  explore({.slots = 2, .workers = 2, .pages = {1, 3, 2, 4}, .crashes = 2});
}

TEST_F(SlotModel, MemoryForLessThanOneBatch_StillFinishes) {
  explore({.slots = 3, .workers = 2, .pages = {4, 4, 3, 4, 1}, .channel_pages = 1, .crashes = 1});
}

TEST_F(SlotModel, EpochLeftAtAnyStepBesideADeath_NextEpochIsWhole) {
  explore({.slots = 2, .workers = 2, .pages = {2, 4, 3}, .crashes = 1, .leave_after = 0});
}

TEST_F(SlotModel, TrainerHoldsTwoBatches_NothingDeadlocks) {
  explore({.slots = 3, .workers = 2, .pages = {2, 4, 3, 4}, .channel_pages = 5, .crashes = 1, .hold = 2});
}

TEST_F(SlotModel, OneSlotAndThreeWorkers_TakeTurns) {
  explore({.slots = 1, .workers = 3, .pages = {1, 2, 4}, .crashes = 2});
}

}  // namespace
}  // namespace hopfeed
