// This is the table of docs/formats.md: which word of a slot may become which, and by whom. Both models of
// the channel check every change against it.
#pragma once
#include <algorithm>
#include <iterator>

#include "channel/slot_layout.h"

namespace hopfeed {

enum class Actor { kLoader, kWorker };

struct Transition {
  SlotState from, to;
  Actor by;
  friend bool operator==(const Transition&, const Transition&) = default;
};

inline constexpr Transition kTransitions[] = {
    {SlotState::kFree, SlotState::kPlanned, Actor::kLoader},     // a batch is written into the record
    {SlotState::kPlanned, SlotState::kFilling, Actor::kWorker},  // it leaves its incarnation
    {SlotState::kPlanned, SlotState::kFree, Actor::kLoader},     // the epoch was left
    {SlotState::kFilling, SlotState::kReady, Actor::kWorker},    // the block, or the error, is whole
    {SlotState::kFilling, SlotState::kPlanned, Actor::kLoader},  // the owner is dead: the same batch again
    {SlotState::kFilling, SlotState::kFree, Actor::kLoader},     // the owner is dead and the epoch was left
    {SlotState::kReady, SlotState::kHeld, Actor::kLoader},       // handed out, in sequence
    {SlotState::kReady, SlotState::kFree, Actor::kLoader},       // the epoch was left
    {SlotState::kHeld, SlotState::kFree, Actor::kLoader},        // the last view is gone
};

inline bool in_table(const Transition& transition) {
  return std::find(std::begin(kTransitions), std::end(kTransitions), transition) != std::end(kTransitions);
}

}  // namespace hopfeed
