// A SharedEmbedding is an owner's part of a table that the ranks of a run learn together, step by step: what
// it holds for whom, and for whom it waits.
//
//   A step is s when s steps have been applied before it. For each, every rank
//     look(s)   says which rows it reads, and gets those that are settled: all, once s is the next step;
//               before that, once the step before is the next one and all ranks have looked at it, those
//               that none of them reads in it
//     rest(s)   gets the others, as soon as s is the next step
//     step(s)   brings the sums of its gradients; when all have, the step is applied
//   An evaluation pulls rows at a step: it waits until so many have been applied.
//
// So ranks that look ahead wait for nobody but for rows that move meanwhile. A rank may bring a step before
// the others have brought the one before: sums of two steps are held at most. Everything is answered anew
// where it comes again, and done once. Sums are added in the order of ranks: the bits are those of a table
// that lies whole at each of them (learned_table.h).
//
// One thread at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/recycled_bytes.h"
#include "state/owner/owned_rows.h"
#include "state/owner/state_reply.h"
#include "state/owner/table_spec.h"
#include "state/table/learned_table.h"

namespace hopfeed {

/// RanksOfRun are those who learn together.
struct RanksOfRun {
  std::int64_t ranks = 1;
  std::chrono::milliseconds timeout{300'000};  // for a rank that is late
};

/// How many steps ahead of the next one a rank may look, or pull.
inline constexpr std::int64_t kLooksAhead = 64;

class SharedEmbedding {
 public:
  using Clock = std::chrono::steady_clock;
  /// `rows` must outlive it. Throws what LearnedTable throws.
  SharedEmbedding(const TableSpec& spec, const OwnedRows& rows, const RanksOfRun& run, int threads);
  ~SharedEmbedding();

  const TableSpec& spec() const { return spec_; }
  const LearnedTable& table() const { return table_; }
  std::int64_t steps_applied() const { return applied_; }
  std::size_t held_bytes() const;  // of sums that wait for those of other ranks

  // ---- questions; ids are dataset ids, of look() and step() ascending, each once. They throw what is wrong
  // with a question, which changes nothing then; what has to wait is refused through `done`.
  /// An Asker is a rank, the process that it is, and the connection over which that asks: a later one has a
  /// higher number.
  struct Asker {
    std::int64_t rank = 0;
    std::uint64_t client = 0, connection = 0;
  };
  void look(const Asker& asker, std::int64_t step, std::span<const std::int64_t> ids, StateDone done);
  void rest(const Asker& asker, std::int64_t step, StateDone done);
  /// `sums` [ids, width] lie within `message`, which is kept. `rows_of_all_owners` is how many rows the rank
  /// learned of in this step, wherever they are: a step in which nobody learned any is none for the
  /// optimizer.
  struct Sums {
    std::int64_t rank = 0, step = 0;
    std::uint64_t rows_of_all_owners = 0;
    std::span<const std::int64_t> ids;
    const float* sums = nullptr;
    std::shared_ptr<const RecycledBytes> message;
  };
  void step(const Sums& sums, StateDone done);
  /// At most kLooksAhead steps ahead.
  void pull(std::int64_t at, std::span<const std::int64_t> ids, StateDone done);
  /// Calls `then` with `done` once `at` steps have been applied; at most kLooksAhead ahead. `then` throws
  /// nothing.
  void when(std::int64_t at, std::function<void(StateDone done)> then, StateDone done);

  // ---- ranks
  /// It brings nothing any more: who waits for it hears so.
  void leave(std::int64_t rank);
  /// Once a second: where no step has been applied for longer than the timeout, whoever has waited for as
  /// long hears which rank is late.
  void tick(Clock::time_point now);
  /// Refuses all that waits, with this, and forgets sums that were not applied.
  void abandon(const Error& why);

  // ---- checkpoints
  /// Applies no step until go_on(): rows may be read on another thread meanwhile. Sums are held as ever, and
  /// no rank is late.
  void pause() { paused_ = true; }
  void go_on();
  /// Forgets all, to go on from a checkpoint: until restored() another thread puts its rows into
  /// table_to_restore(), and nothing is answered.
  void begin_to_restore();
  LearnedTable& table_to_restore() { return table_; }
  void restored(std::int64_t steps_applied, const StepCount& count);

 private:
  struct Waiting {
    StateDone done;  // null: nobody waits
    std::uint64_t connection = 0;
  };
  struct Look {
    std::vector<std::int64_t> rows;  // ascending
    /// A bit for each row that is to come later, once an answer has left some out: whoever asks again gets
    /// the same split.
    std::vector<std::uint8_t> later;
    Waiting settled, rest;
    Clock::time_point since;
  };
  struct Held {
    std::vector<std::int64_t> rows;
    const float* sums = nullptr;
    std::uint64_t rows_of_all_owners = 0;
    std::shared_ptr<const RecycledBytes> message;
  };
  struct Step {
    std::vector<std::optional<Look>> looks;         // by rank
    std::vector<std::optional<Held>> sums;          // by rank
    std::optional<std::vector<std::int64_t>> read;  // by any rank, ascending; once all have looked
  };
  struct Later {
    std::int64_t at;
    std::function<void(StateDone done)> then;
    StateDone done;
    Clock::time_point since;
  };
  Step& step_at(std::int64_t step);
  void require_rank(std::int64_t rank) const;
  void require_asker(const Asker& asker);
  static void wait(Waiting& waiting, const Asker& asker, StateDone done);
  std::vector<std::int64_t> rows_of_look(const Look& look, bool later) const;
  void check(const Sums& sums, const Look* look, const std::vector<std::int64_t>& rows) const;
  const std::vector<std::int64_t>* read_in(std::int64_t step);
  void settle();
  void answer_looks(std::int64_t step);
  void answer_early(std::int64_t step);
  void answer_later();
  bool apply_next();
  void break_off(const std::exception& why);
  std::optional<std::int64_t> awaited_rank() const;
  std::string table_and_step(std::int64_t step) const;

  const TableSpec spec_;
  const OwnedRows& rows_;
  const RanksOfRun run_;
  const ParallelFor parallel_;
  LearnedTable table_;
  std::int64_t applied_ = 0;
  bool paused_ = false;
  Clock::time_point progress_ = Clock::now();  // when the last step was applied
  std::map<std::int64_t, Step> steps_;         // from applied_ on
  std::deque<Later> later_;
  std::vector<char> left_;              // by rank
  std::vector<std::uint64_t> clients_;  // by rank: the process that it is; 0: nobody yet
  std::optional<Error> broken_;         // why a step could not be applied; then nothing is answered any more
};

}  // namespace hopfeed
