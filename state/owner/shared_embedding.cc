// See shared_embedding.h.
#include "state/owner/shared_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "state/owner/state_questions.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kStepsAhead = 1;  // of sums, beyond the next step
constexpr std::size_t kMostLater = 4'096;
constexpr std::int64_t kRowsOfAThread = 1'024;  // at least

LearnedTableOptions table_options(const TableSpec& spec, std::int64_t rows) {
  return {.rows = rows, .width = spec.width, .seed = spec.seed, .optimizer = spec.optimizer};
}

using RowIterator = std::vector<std::int64_t>::const_iterator;

/// The first one from `begin` on that is not below `row`, which mostly lies a few further.
RowIterator first_from(RowIterator begin, RowIterator end, std::int64_t row) {
  std::ptrdiff_t stride = 1;
  for (; end - begin > stride && begin[stride] < row; stride *= 2) begin += stride;
  return std::lower_bound(begin, begin + std::min(stride + 1, end - begin), row);
}

ParallelFor on_threads(int threads) {
  return [threads](std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
    const auto useful = static_cast<int>(std::min<std::int64_t>(threads, count / kRowsOfAThread + 1));
    if (useful == 1) return serial_for(count, body);
    parallel_ranges(useful, count, [&body](int, std::int64_t begin, std::int64_t end) {
      if (begin < end) body(begin, end);
    });
  };
}

}  // namespace

SharedEmbedding::SharedEmbedding(const TableSpec& spec, const OwnedRows& rows, const RanksOfRun& run,
                                 int threads)
    : spec_(spec),
      rows_(rows),
      run_(run),
      parallel_(on_threads(threads)),
      table_(table_options(spec, rows.count()), [&rows](std::int64_t row) { return rows.original_id(row); }),
      left_(static_cast<std::size_t>(run.ranks), 0),
      clients_(static_cast<std::size_t>(run.ranks), 0) {}

SharedEmbedding::~SharedEmbedding() {
  abandon(Error(ErrorCode::kStateLost,
                fmt::format("the owner of table '{}' ends; go back to a checkpoint when it is there again",
                            spec_.name)));
}

std::size_t SharedEmbedding::held_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [number, step] : steps_)
    for (const std::optional<Held>& held : step.sums)
      if (held) bytes += held->message->size() + held->rows.size() * sizeof(std::int64_t);
  return bytes;
}

std::string SharedEmbedding::table_and_step(std::int64_t step) const {
  return fmt::format("step {} of table '{}'", step, spec_.name);
}

void SharedEmbedding::require_rank(std::int64_t rank) const {
  require_valid(rank >= 0 && rank < run_.ranks,
                fmt::format("rank {} asks of table '{}', and its run has ranks 0 to {}", rank, spec_.name,
                            run_.ranks - 1));
}

SharedEmbedding::Step& SharedEmbedding::step_at(std::int64_t step) {
  const auto [found, is_new] = steps_.try_emplace(step);
  if (is_new) {
    found->second.looks.resize(static_cast<std::size_t>(run_.ranks));
    found->second.sums.resize(static_cast<std::size_t>(run_.ranks));
  }
  return found->second;
}

void SharedEmbedding::require_asker(const Asker& asker) {
  require_rank(asker.rank);
  if (broken_) throw *broken_;
  std::uint64_t& client = clients_[static_cast<std::size_t>(asker.rank)];
  require_valid(
      client == 0 || client == asker.client,
      fmt::format("rank {} of table '{}' is another process already; give each process a rank of its "
                  "own",
                  asker.rank, spec_.name));
  client = asker.client;
  left_[static_cast<std::size_t>(asker.rank)] = 0;
}

// ---- questions

/// Of two that wait for the same, the one over the later connection gets it.
void SharedEmbedding::wait(Waiting& waiting, const Asker& asker, StateDone done) {
  if (waiting.done && asker.connection < waiting.connection) return done(AskedAgain{});
  if (waiting.done) waiting.done(AskedAgain{});
  waiting = {.done = std::move(done), .connection = asker.connection};
}

void SharedEmbedding::look(const Asker& asker, std::int64_t step, std::span<const std::int64_t> ids,
                           StateDone done) {
  require_asker(asker);
  require_valid(step >= applied_, fmt::format("rank {} looks at {}, and {} steps have been applied",
                                              asker.rank, table_and_step(step), applied_));
  require_valid(step <= applied_ + kLooksAhead, fmt::format("rank {} looks at {}, more than {} ahead",
                                                            asker.rank, table_and_step(step), kLooksAhead));
  require_answer_holds(ids.size(), spec_.row_bytes(), spec_.name);
  std::vector<std::int64_t> rows = rows_.rows_of(ids, OwnedRows::Order::kAscending);
  std::optional<Look>& look = step_at(step).looks[static_cast<std::size_t>(asker.rank)];
  require_valid(!look || look->rows == rows,
                fmt::format("rank {} looks at {} twice, at other rows", asker.rank, table_and_step(step)));
  if (!look)
    look.emplace(
        Look{.rows = std::move(rows), .later = {}, .settled = {}, .rest = {}, .since = Clock::now()});
  wait(look->settled, asker, std::move(done));
  settle();
}

void SharedEmbedding::rest(const Asker& asker, std::int64_t step, StateDone done) {
  require_asker(asker);
  const auto found = steps_.find(step);
  require_valid(found != steps_.end() && found->second.looks[static_cast<std::size_t>(asker.rank)],
                fmt::format("rank {} wants the rest of {}, at which it has not looked", asker.rank,
                            table_and_step(step)));
  wait(found->second.looks[static_cast<std::size_t>(asker.rank)]->rest, asker, std::move(done));
  settle();
}

void SharedEmbedding::check(const Sums& sums, const Look* look, const std::vector<std::int64_t>& rows) const {
  require_valid(look != nullptr, fmt::format("rank {} brings {}, at which it has not looked", sums.rank,
                                             table_and_step(sums.step)));
  require_valid(std::ranges::includes(look->rows, rows),
                fmt::format("rank {} brings gradients of rows of {} that it has not read", sums.rank,
                            table_and_step(sums.step)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (all_finite(sums.sums + static_cast<std::int64_t>(i) * spec_.width, spec_.width)) continue;
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("rank {} brings a gradient with NaN or infinity in {}, of node {} of type '{}'",
                    sums.rank, table_and_step(sums.step), rows_.original_id(rows[i]), spec_.node_type));
  }
}

void SharedEmbedding::step(const Sums& sums, StateDone done) {
  require_rank(sums.rank);
  if (broken_) throw *broken_;
  if (sums.step < applied_) return done(write_steps_applied(applied_));  // it has come before
  require_valid(sums.step <= applied_ + kStepsAhead,
                fmt::format("rank {} brings {}, and {} steps have been applied", sums.rank,
                            table_and_step(sums.step), applied_));
  const auto rank = static_cast<std::size_t>(sums.rank);
  Step& at = step_at(sums.step);
  if (!at.sums[rank]) {
    std::vector<std::int64_t> rows = rows_.rows_of(sums.ids, OwnedRows::Order::kAscending);
    check(sums, at.looks[rank] ? &*at.looks[rank] : nullptr, rows);
    at.sums[rank].emplace(Held{.rows = std::move(rows),
                               .sums = sums.sums,
                               .rows_of_all_owners = sums.rows_of_all_owners,
                               .message = sums.message});
  }
  done(write_steps_applied(applied_));
  settle();
}

void SharedEmbedding::pull(std::int64_t at, std::span<const std::int64_t> ids, StateDone done) {
  require_answer_holds(ids.size(), spec_.row_bytes(), spec_.name);
  when(
      at,
      [this, rows = rows_.rows_of(ids, OwnedRows::Order::kAny)](StateDone waiting) {
        reply_with(waiting, [&] {
          return write_rows(rows.size(), static_cast<std::size_t>(spec_.row_bytes()), [&](std::byte* out) {
            table_.read(rows, reinterpret_cast<float*>(out), parallel_);
          });
        });
      },
      std::move(done));
}

void SharedEmbedding::when(std::int64_t at, std::function<void(StateDone done)> then, StateDone done) {
  if (broken_) throw *broken_;
  require_valid(at <= applied_ + kLooksAhead,
                fmt::format("table '{}' is asked for as {} steps leave it, more than {} ahead", spec_.name,
                            at, kLooksAhead));
  if (later_.size() >= kMostLater)
    throw Error(ErrorCode::kNoSpace, fmt::format("{} questions about table '{}' wait for a step already; ask "
                                                 "again when it is applied",
                                                 later_.size(), spec_.name));
  later_.push_back({.at = at, .then = std::move(then), .done = std::move(done), .since = Clock::now()});
  answer_later();
}

// ---- what follows

void SharedEmbedding::settle() {
  do {
    answer_looks(applied_);
    answer_early(applied_ + 1);
  } while (apply_next());
}

/// Those that its answer has left out, or the others.
std::vector<std::int64_t> SharedEmbedding::rows_of_look(const Look& look, bool later) const {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < look.rows.size(); ++i)
    if (is_later(look.later, i) == later) rows.push_back(look.rows[i]);
  return rows;
}

/// Whoever looks at the next step gets all rows, or what was left out before.
void SharedEmbedding::answer_looks(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return;
  for (std::optional<Look>& look : found->second.looks) {
    if (!look) continue;
    if (look->settled.done)
      reply_with(look->settled.done, [&] {
        const std::vector<std::int64_t> rows = rows_of_look(*look, /*later=*/false);
        return write_look(look->rows.size(), look->later, spec_.width,
                          [&](float* out) { table_.read(rows, out, parallel_); });
      });
    if (look->rest.done)
      reply_with(look->rest.done, [&] {
        const std::vector<std::int64_t> rows = rows_of_look(*look, /*later=*/true);
        return write_rows(rows.size(), static_cast<std::size_t>(spec_.row_bytes()), [&](std::byte* out) {
          table_.read(rows, reinterpret_cast<float*>(out), parallel_);
        });
      });
  }
}

/// Rows that any rank reads in a step; null until all have looked at it.
const std::vector<std::int64_t>* SharedEmbedding::read_in(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return nullptr;
  Step& at = found->second;
  if (!at.read) {
    if (!std::ranges::all_of(at.looks, [](const auto& look) { return look.has_value(); })) return nullptr;
    std::vector<std::int64_t>& all = at.read.emplace();
    for (const std::optional<Look>& look : at.looks) {
      std::vector<std::int64_t> merged;
      merged.reserve(all.size() + look->rows.size());
      std::ranges::set_union(all, look->rows, std::back_inserter(merged));
      all = std::move(merged);
    }
  }
  return &*at.read;
}

/// Whoever looks at the step after the next one gets the rows that the next one cannot move.
void SharedEmbedding::answer_early(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return;
  for (std::optional<Look>& look : found->second.looks) {
    if (!look || !look->settled.done) continue;
    const std::vector<std::int64_t>* const moving = read_in(step - 1);
    if (moving == nullptr) return;
    reply_with(look->settled.done, [&] {
      std::vector<std::uint8_t> later((look->rows.size() + 7) / 8, 0);
      auto next = moving->begin();
      for (std::size_t i = 0; i < look->rows.size(); ++i) {
        next = first_from(next, moving->end(), look->rows[i]);
        if (next != moving->end() && *next == look->rows[i])
          later[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8));
      }
      look->later = std::move(later);
      const std::vector<std::int64_t> rows = rows_of_look(*look, /*later=*/false);
      return write_look(look->rows.size(), look->later, spec_.width,
                        [&](float* out) { table_.read(rows, out, parallel_); });
    });
  }
}

void SharedEmbedding::answer_later() {
  for (std::size_t left = later_.size(); left > 0; --left) {
    Later later = std::move(later_.front());
    later_.pop_front();
    if (later.at > applied_)
      later_.push_back(std::move(later));
    else
      later.then(std::move(later.done));
  }
}

void SharedEmbedding::break_off(const std::exception& why) {
  broken_.emplace(ErrorCode::kStateLost, fmt::format("{} could not be applied ({}); go back to a checkpoint",
                                                     table_and_step(applied_), why.what()));
  abandon(*broken_);
}

/// Whether the next step had come whole.
bool SharedEmbedding::apply_next() {
  if (paused_) return false;
  const auto found = steps_.find(applied_);
  if (found == steps_.end()) return false;
  Step& step = found->second;
  if (!std::ranges::all_of(step.sums, [](const auto& held) { return held.has_value(); })) return false;
  std::uint64_t of_all_owners = 0;
  std::vector<RowSums> by_rank;
  for (const std::optional<Held>& held : step.sums) {
    of_all_owners += held->rows_of_all_owners;
    by_rank.push_back({held->rows, held->sums});
  }
  try {
    if (std::ranges::any_of(by_rank, [](const RowSums& sums) { return !sums.rows.empty(); }))
      table_.step(by_rank, run_.ranks, parallel_);
    else if (of_all_owners > 0)
      table_.count_step();
  } catch (const std::exception& error) {  // some rows have moved, and some not
    break_off(error);
    return false;
  }
  ++applied_;
  progress_ = Clock::now();
  Step done = std::move(step);
  steps_.erase(found);
  for (std::optional<Look>& look : done.looks) {  // a rank that has brought its sums needs no rows any more
    const Error over(ErrorCode::kInvalid, table_and_step(applied_ - 1) + " is over; look at the next one");
    if (look && look->settled.done) look->settled.done(over);
    if (look && look->rest.done) look->rest.done(over);
  }
  answer_later();
  return true;
}

// ---- ranks

/// The first rank that the next step waits for.
std::optional<std::int64_t> SharedEmbedding::awaited_rank() const {
  const auto found = steps_.find(applied_);
  for (std::int64_t rank = 0; rank < run_.ranks; ++rank)
    if (found == steps_.end() || !found->second.sums[static_cast<std::size_t>(rank)]) return rank;
  return std::nullopt;
}

void SharedEmbedding::leave(std::int64_t rank) {
  require_rank(rank);
  left_[static_cast<std::size_t>(rank)] = 1;
  clients_[static_cast<std::size_t>(rank)] = 0;
  tick(Clock::now());
}

void SharedEmbedding::tick(Clock::time_point now) {
  const std::optional<std::int64_t> awaited = awaited_rank();
  if (!awaited) return;
  const bool gone = left_[static_cast<std::size_t>(*awaited)] != 0;
  const auto late = [&](Clock::time_point since) {
    return gone || (!paused_ && now - std::max(since, progress_) > run_.timeout);
  };
  const Error why(
      gone ? ErrorCode::kPeerDied : ErrorCode::kTimeout,
      gone ? fmt::format("rank {} has left before {}", *awaited, table_and_step(applied_))
           : fmt::format("rank {} has not brought {} within {:.1f} s", *awaited, table_and_step(applied_),
                         std::chrono::duration<double>(run_.timeout).count()));
  for (auto& [number, step] : steps_) {
    if (number == applied_) continue;  // whoever looks at it has been answered
    for (std::optional<Look>& look : step.looks) {
      if (!look || !late(look->since)) continue;
      for (Waiting* waiting : {&look->settled, &look->rest})
        if (waiting->done) std::exchange(waiting->done, nullptr)(why);
    }
  }
  for (std::size_t left = later_.size(); left > 0; --left) {
    Later later = std::move(later_.front());
    later_.pop_front();
    if (late(later.since))
      later.done(why);
    else
      later_.push_back(std::move(later));
  }
}

void SharedEmbedding::abandon(const Error& why) {
  for (auto& [number, step] : std::exchange(steps_, {})) {
    for (std::optional<Look>& look : step.looks) {
      if (look && look->settled.done) look->settled.done(why);
      if (look && look->rest.done) look->rest.done(why);
    }
  }
  for (Later& later : std::exchange(later_, {})) later.done(why);
}

/// Time begins anew for ranks, which may have waited for a checkpoint. Where there is no memory for it, all
/// that wait hear so: nobody asks just now.
void SharedEmbedding::go_on() {
  paused_ = false;
  progress_ = Clock::now();
  try {
    settle();
  } catch (const std::exception& error) {
    break_off(error);
  }
}

void SharedEmbedding::begin_to_restore() {
  abandon(Error(ErrorCode::kStateLost,
                fmt::format("table '{}' goes back to a checkpoint; go on from there", spec_.name)));
  std::ranges::fill(left_, 0);
  std::ranges::fill(clients_, 0);
  // Until all rows are there: a file may be damaged between two reads of it.
  broken_.emplace(ErrorCode::kStateLost,
                  fmt::format("table '{}' went back to a checkpoint and has not all its rows; go back to a "
                              "checkpoint again",
                              spec_.name));
  progress_ = Clock::now();
  table_.clear();
}

void SharedEmbedding::restored(std::int64_t steps_applied, const StepCount& count) {
  applied_ = steps_applied;
  table_.restore_count(count);
  broken_.reset();
}

}  // namespace hopfeed
