// What must hold in each state of slot_model.h, and what tells states apart.
#include "tests/channel/slot_model.h"

namespace hopfeed {

void SlotModelExplorer::check_transitions(const std::vector<SlotWord>& before, Actor by) const {
  for (std::uint32_t i = 0; i < options_.slots; ++i) {
    const SlotWord after = word(i);
    EXPECT_TRUE(after == before[i] || in_table({.from = before[i].state, .to = after.state, .by = by}))
        << "slot " << i << " from " << static_cast<int>(before[i].state) << " to "
        << static_cast<int>(after.state);
  }
}

void SlotModelExplorer::check(const ModelState& s) const {
  EXPECT_LE(s.pool.granted(), (options_.channel_pages + options_.largest_pages) * kPageBytes) << describe(s);
  const auto stuck = s.pool.stuck(next_in_order(s));
  EXPECT_FALSE(s.held.empty() && stuck && stuck->ready == 0) << describe(s);
  std::uint32_t queued = 0;
  QueuePlan queue = s.queue;
  while (const auto batch = queue.next()) queued |= bit(s, batch->sequence);
  for (std::uint64_t sequence = s.first_sequence; sequence < s.first_sequence + s.pushed; ++sequence) {
    int places = (queued & bit(s, sequence)) != 0;
    for (std::uint32_t i = 0; i < options_.slots; ++i) {
      const SlotState state = word(i).state;
      const bool pending =
          state == SlotState::kPlanned || state == SlotState::kFilling || state == SlotState::kReady;
      places += pending && view_.slot(i).abandoned == 0 && view_.slot(i).sequence == sequence;
    }
    EXPECT_EQ(places, ((s.taken | s.withdrawn) & bit(s, sequence)) == 0)
        << "batch " << sequence << " of " << describe(s);
  }
}

/// What the future depends on. Generations and incarnations only grow, so they count only by whether a
/// filler's copy of a word still is the slot's word.
std::string SlotModelExplorer::fingerprint(const ModelState& s) const {
  std::string key;
  auto add = [&key](std::uint64_t value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (std::uint32_t i = 0; i < options_.slots; ++i) {
    const SlotRecord& record = view_.slot(i);
    std::uint64_t owner = 99;
    for (std::uint32_t w = 0; w < options_.workers; ++w) {
      if (word(i).state == SlotState::kFilling && s.fillers[w].incarnation == word(i).owner) owner = w;
    }
    add(static_cast<std::uint64_t>(word(i).state) | owner << 8 | std::uint64_t{record.abandoned} << 16 |
        record.sequence << 24);
    add(record.granted << 32 | record.wanted);
  }
  for (const ModelFiller& filler : s.fillers) {
    add(static_cast<std::uint64_t>(filler.ear) << 1 | filler.dead);
    for (const ModelClaim& c : filler.claims) {
      const bool found = c.phase == Phase::kFound && !filler.dead,
                 busy = c.phase > Phase::kFound && !filler.dead;
      const std::uint32_t slot = found ? c.candidate.slot : busy ? c.claim.slot : 99;
      const bool current = found && view_.slot(slot).word == c.candidate.word;
      add(static_cast<std::uint64_t>(filler.dead ? Phase::kIdle : c.phase) | std::uint64_t{slot} << 8 |
          std::uint64_t{current} << 16);
    }
  }
  for (std::uint32_t slot : s.held) add(slot);
  for (std::uint32_t slot : s.pool.free_order()) add(100 + slot);
  add(s.first_sequence << 48 | s.pushed << 40 | std::uint64_t{s.withdrawn} << 32 |
      static_cast<std::uint64_t>(s.queue.left()) << 16 | s.taken);
  add(static_cast<std::uint64_t>(s.crashes_left) << 1 | s.may_leave);
  if (!options_.bells) return key;
  const ControlBlock& control = view_.control();
  add(static_cast<std::uint64_t>(s.planner) << 8 | control.work_event.listening << 4 |
      control.loader_event.listening << 3 | control.grants_pending << 2 |
      static_cast<std::uint64_t>(readable(fillers_bell_)) << 1 |
      static_cast<std::uint64_t>(readable(planner_bell_)));
  return key;
}

std::string SlotModelExplorer::describe(const ModelState& s) const {
  std::string text = "taken " + std::to_string(s.taken) + " withdrawn " + std::to_string(s.withdrawn) +
                     " queued " + std::to_string(s.queue.left()) + " planner's ear " +
                     std::to_string(static_cast<int>(s.planner)) + "; slots";
  for (std::uint32_t i = 0; i < options_.slots; ++i) {
    text += " [state " + std::to_string(static_cast<int>(word(i).state)) + " sequence " +
            std::to_string(view_.slot(i).sequence) + " granted " +
            std::to_string(view_.slot(i).granted / kPageBytes) + " wanted " +
            std::to_string(view_.slot(i).wanted / kPageBytes) + "]";
  }
  for (const ModelFiller& filler : s.fillers) {
    text += filler.dead ? " dead filler" : " filler with ear " + std::to_string(static_cast<int>(filler.ear));
    for (const ModelClaim& c : filler.claims) text += " phase " + std::to_string(static_cast<int>(c.phase));
  }
  return text;
}

}  // namespace hopfeed
