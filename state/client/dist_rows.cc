// See dist_rows.h.
#include "state/client/dist_rows.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "state/table/row_formulas.h"

namespace hopfeed {
namespace {

constexpr std::size_t kPlacesAhead = 8;  // of rows, which go anywhere, so each place is asked for early

/// How many of the first `rows` rows come later.
std::size_t count_later(std::span<const std::uint8_t> later, std::size_t rows) {
  if (later.empty()) return 0;
  std::size_t count = 0;
  for (const std::uint8_t bits : later.first(rows / 8))
    count += static_cast<std::size_t>(std::popcount(bits));
  for (std::size_t row = rows / 8 * 8; row < rows; ++row) count += is_later(later, row) ? 1 : 0;
  return count;
}

}  // namespace

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

/// Waits for the rows that the next step reads, and writes each to its places in `out`: what
/// `places_of(i)` returns for ids()[i].
template <class PlacesOf>
void DistRows::read_to(float* out, const PlacesOf& places_of, const ParallelFor& parallel) {
  require_valid(!looked_.empty() && !looked_.front().read,
                fmt::format("step {} of table '{}' is read before it was looked at, or twice", next_step_,
                            spec().name));
  LookedAt& step = looked_.front();
  step.settled_came.resize(step.parts.size());
  step.rest_came.resize(step.parts.size());
  const std::int64_t width = spec().width;
  const std::size_t row_bytes = static_cast<std::size_t>(spec().row_bytes());
  for (std::size_t owner = 0; owner < step.parts.size(); ++owner) {
    const std::vector<std::uint32_t>& positions = step.parts[owner].positions;
    const Answer& settled = awaited(step.settled[owner], step.settled_came[owner]);
    const Looked looked = read_look(*settled, positions.size(), width);
    const std::size_t now = looked.settled.size() / static_cast<std::size_t>(width);
    std::span<const std::byte> rest_rows;
    if (now == positions.size()) {
      table_.network().drop(std::exchange(step.rest[owner], 0));  // there is none
    } else {
      const Answer& rest = awaited(step.rest[owner], step.rest_came[owner]);
      rest_rows = read_rows(*rest, positions.size() - now, row_bytes);
    }
    parallel(std::ssize(positions), [&](std::int64_t first, std::int64_t last) {
      const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
      const std::size_t later = count_later(looked.later, begin);
      const std::byte* from_now = std::as_bytes(looked.settled).data() + (begin - later) * row_bytes;
      const std::byte* from_rest = rest_rows.data() + later * row_bytes;
      for (std::size_t i = begin; i < end; ++i) {
        if (i + kPlacesAhead < end) {
          const float* const first_place = out + places_of(positions[i + kPlacesAhead]).front() * width;
          for (std::int64_t f = 0; f < width; f += 16) prefetch_line_to_write(first_place + f);
        }
        const std::byte*& from = is_later(looked.later, i) ? from_rest : from_now;
        for (const std::uint32_t place : places_of(positions[i]))
          std::memcpy(out + place * width, from, row_bytes);
        from += row_bytes;
      }
    });
  }
  step.read = true;
  for (std::vector<Answer>* came : {&step.settled_came, &step.rest_came}) came->clear();
}

void DistRows::read(float* out) {
  read_to(
      out, [](std::uint32_t i) { return std::array{i}; }, serial_for);
}

void DistRows::read(const RowGroups& groups, float* out, const ParallelFor& parallel) {
  require_valid(looked_.empty() || groups.rows() == looked_.front().ids,
                fmt::format("step {} of table '{}' is read for lookups of other rows than it has looked at",
                            next_step_, spec().name));
  read_to(
      out, [&groups](std::uint32_t i) { return groups.lookups(i); }, parallel);
}

/// What brings the sums to each owner; `write_sum(i, to)` writes that of rows[i]. Each is looked at while it
/// is in the nearest cache.
template <class WriteSum>
std::vector<RecycledBytes> DistRows::step_questions(std::span<const std::int64_t> rows,
                                                    const WriteSum& write_sum,
                                                    const ParallelFor& parallel) const {
  const std::int64_t width = spec().width;
  const auto row_bytes = static_cast<std::size_t>(spec().row_bytes());
  const std::vector<TableAtOwners::Part> parts = table_.split(rows);
  std::vector<RecycledBytes> questions;
  for (std::size_t owner = 0; owner < parts.size(); ++owner) {
    const TableAtOwners::Part& part = parts[owner];
    StateHead head =
        table_.head(static_cast<int>(owner), StateAsk::kStep, static_cast<std::uint64_t>(next_step_));
    head.rows_of_all_owners = rows.size();
    questions.push_back(write_state_question(head, part.ids, part.ids.size() * row_bytes, [&](std::byte* to) {
      std::atomic<std::int64_t> wrong = std::ssize(part.ids);  // the first one
      parallel(std::ssize(part.ids), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          float* const sum = reinterpret_cast<float*>(to) + i * width;
          write_sum(part.positions[static_cast<std::size_t>(i)], sum);
          if (all_finite(sum, width)) continue;
          for (std::int64_t first = wrong; i < first && !wrong.compare_exchange_weak(first, i);) continue;
        }
      });
      if (wrong == std::ssize(part.ids)) return;
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("a gradient of node {} (dataset id) has NaN or infinity in step {} of table '{}'",
                      part.ids[static_cast<std::size_t>(wrong)], next_step_, spec().name));
    }));
  }
  return questions;
}

template <class WriteSum>
void DistRows::bring(std::span<const std::int64_t> rows, const WriteSum& write_sum,
                     const ParallelFor& parallel) {
  std::vector<RecycledBytes> questions = step_questions(rows, write_sum, parallel);
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

void DistRows::step(const RowSums& sums) {
  const std::int64_t width = spec().width;
  bring(
      sums.rows,
      [&sums, width](std::uint32_t i, float* to) {
        std::memcpy(to, sums.sums + i * width, static_cast<std::size_t>(width) * sizeof(float));
      },
      serial_for);
}

void DistRows::step(const RowGroups& groups, const float* gradients, const ParallelFor& parallel) {
  const std::int64_t width = spec().width;
  bring(
      groups.rows(),
      [&groups, gradients, width](std::uint32_t i, float* to) { groups.sum_of(i, gradients, width, to); },
      parallel);
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
