// See dist_rows.h.
#include "state/client/dist_rows.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "state/table/row_formulas.h"

namespace hopfeed {

DistRows::DistRows(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const TableSpec& spec,
                   const RankOfRun& rank)
    : table_(std::move(network), dataset, spec.require_kind(TableSpec::Kind::kEmbedding), rank),
      next_step_(table_.steps_applied()) {}

DistRows::~DistRows() {
  for (const LookedAt& step : looked_) {
    for (const StateNetwork::Ticket ticket : step.rest) table_.network().drop(ticket);
    if (!step.read)
      for (const StateNetwork::Ticket ticket : step.settled) table_.network().drop(ticket);
  }
  for (const StateNetwork::Ticket ticket : unanswered_) table_.network().drop(ticket);
  try {
    leave();
  } catch (...) {  // the owner is gone, and knows it; or the process is told to end
  }
}

void DistRows::look(std::vector<std::int64_t> ids) {
  const auto step = static_cast<std::uint64_t>(next_step_) + looked_.size();
  LookedAt looked{.ids = std::move(ids), .parts = {}, .settled = {}, .rest = {}};
  looked.parts = table_.split(looked.ids);
  // All owners hear of all steps, also of those that read nothing there: a step is whole once all ranks have
  // said what they read.
  for (int owner = 0; owner < table_.num_owners(); ++owner)
    looked.settled.push_back(
        table_.network().ask(owner, write_state_question(table_.head(owner, StateAsk::kLook, step),
                                                         looked.parts[static_cast<std::size_t>(owner)].ids)));
  for (int owner = 0; owner < table_.num_owners(); ++owner)
    looked.rest.push_back(
        table_.network().ask(owner, write_state_question(table_.head(owner, StateAsk::kRest, step), {})));
  looked_.push_back(std::move(looked));
}

/// The answer to a ticket, which is 0 from then on.
const DistRows::Answer& DistRows::awaited(StateNetwork::Ticket& ticket, Answer& came) const {
  if (!came) {
    came = table_.network().wait(ticket);
    ticket = 0;
  }
  return came;
}

void DistRows::read(float* out) {
  require_valid(!looked_.empty() && !looked_.front().read,
                fmt::format("step {} of table '{}' is read before it was looked at, or twice", next_step_,
                            spec().name));
  LookedAt& step = looked_.front();
  step.settled_came.resize(step.parts.size());
  step.rest_came.resize(step.parts.size());
  const std::int64_t width = spec().width;
  const std::size_t row_bytes = static_cast<std::size_t>(spec().row_bytes());
  for (std::size_t owner = 0; owner < step.parts.size(); ++owner) {
    const TableAtOwners::Part& part = step.parts[owner];
    const Answer& settled = awaited(step.settled[owner], step.settled_came[owner]);
    const Looked looked = read_look(*settled, part.ids.size(), width);
    const std::size_t now = looked.settled.size() / static_cast<std::size_t>(width);
    const float* from_now = looked.settled.data();
    const std::byte* from_rest = nullptr;
    if (now == part.ids.size()) {
      table_.network().drop(std::exchange(step.rest[owner], 0));  // there is none
    } else {
      const Answer& rest = awaited(step.rest[owner], step.rest_came[owner]);
      from_rest = read_rows(*rest, part.ids.size() - now, row_bytes).data();
    }
    for (std::size_t i = 0; i < part.ids.size(); ++i) {
      float* const to = out + part.positions[i] * width;
      if (is_later(looked.later, i)) {
        std::memcpy(to, from_rest, row_bytes);
        from_rest += row_bytes;
      } else {
        std::memcpy(to, from_now, row_bytes);
        from_now += width;
      }
    }
  }
  step.read = true;
  for (std::vector<Answer>* came : {&step.settled_came, &step.rest_came}) came->clear();
}

/// What brings the sums to each owner. Each is looked at while it is copied.
std::vector<RecycledBytes> DistRows::step_questions(const RowSums& sums) const {
  const std::int64_t width = spec().width;
  const auto row_bytes = static_cast<std::size_t>(spec().row_bytes());
  const std::vector<TableAtOwners::Part> parts = table_.split(sums.rows);
  std::vector<RecycledBytes> questions;
  for (std::size_t owner = 0; owner < parts.size(); ++owner) {
    const TableAtOwners::Part& part = parts[owner];
    StateHead head =
        table_.head(static_cast<int>(owner), StateAsk::kStep, static_cast<std::uint64_t>(next_step_));
    head.rows_of_all_owners = sums.rows.size();
    questions.push_back(write_state_question(head, part.ids, part.ids.size() * row_bytes, [&](std::byte* to) {
      for (std::size_t i = 0; i < part.ids.size(); ++i, to += row_bytes) {
        const float* const sum = sums.sums + part.positions[i] * width;
        std::memcpy(to, sum, row_bytes);
        if (all_finite(sum, width)) continue;
        throw Error(
            ErrorCode::kInvalid,
            fmt::format("a gradient of node {} (dataset id) has NaN or infinity in step {} of table '{}'",
                        part.ids[i], next_step_, spec().name));
      }
    }));
  }
  return questions;
}

void DistRows::step(const RowSums& sums) {
  std::vector<RecycledBytes> questions = step_questions(sums);
  if (looked_.empty()) look({});
  if (!looked_.front().read) {  // owners answer rows before they take what was made of them
    std::vector<float> unused(looked_.front().ids.size() * static_cast<std::size_t>(spec().width));
    read(unused.data());
  }
  take_answers();
  for (std::size_t owner = 0; owner < questions.size(); ++owner)
    unanswered_.push_back(table_.network().ask(static_cast<int>(owner), std::move(questions[owner])));
  looked_.pop_front();
  ++next_step_;
}

/// Those of the step before: an owner's complaint comes a step late, and nobody waits for its word that it
/// has the sums.
void DistRows::take_answers() {
  while (!unanswered_.empty()) {
    Answer answer;
    try {
      answer = table_.network().wait(unanswered_.front());
    } catch (const Error&) {  // it was the answer
      unanswered_.pop_front();
      throw;
    }
    unanswered_.pop_front();
    read_steps_applied(*answer);
  }
}

void DistRows::pull(std::span<const std::int64_t> ids, float* out) const {
  table_.pull(static_cast<std::uint64_t>(next_step_), ids, reinterpret_cast<std::byte*>(out));
}

void DistRows::restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards) {
  require_valid(looked_.empty(),
                fmt::format("table '{}' goes back to a checkpoint before its first look", spec().name));
  next_step_ = table_.restore(checkpoint, shards);
}

void DistRows::give_up() noexcept {
  if (std::exchange(left_, true)) return;
  for (int owner = 0; owner < table_.num_owners(); ++owner) {
    try {
      table_.network().drop(
          table_.network().ask(owner, write_state_question(table_.head(owner, StateAsk::kLeave, 0), {})));
    } catch (const std::exception&) {  // it is gone
    }
  }
}

void DistRows::leave() {
  if (std::exchange(left_, true)) return;
  std::vector<StateNetwork::Ticket> tickets;
  for (int owner = 0; owner < table_.num_owners(); ++owner)
    tickets.push_back(
        table_.network().ask(owner, write_state_question(table_.head(owner, StateAsk::kLeave, 0), {})));
  for (const StateNetwork::Ticket ticket : tickets) table_.network().wait(ticket);
}

}  // namespace hopfeed
