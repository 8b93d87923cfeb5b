// DistRows are learned rows at their owners, as one rank of a run sees them (state/owner/shared_embedding.h
// has what a step is). All ranks make the same calls of each step; rows that a rank looks ahead for come
// while it computes.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "state/client/table_at_owners.h"
#include "state/table/row_sums.h"

namespace hopfeed {

class DistRows {
 public:
  /// Opens or makes the table. Throws what TableAtOwners throws.
  DistRows(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const TableSpec& spec,
           const RankOfRun& rank);
  /// Leaves, where that was not said: who waits for this rank hears so.
  ~DistRows();
  DistRows(const DistRows&) = delete;
  DistRows& operator=(const DistRows&) = delete;

  const TableSpec& spec() const { return table_.spec(); }
  std::int64_t rows() const { return table_.rows(); }
  /// Returns the step that is brought next.
  std::int64_t next_step() const { return next_step_; }

  /// Asks for the rows that this rank reads in the step behind those that it has looked at, up to kLooksAhead
  /// ahead: dataset ids, ascending, each once. Throws kInvalid for an id that has no row.
  void look(std::vector<std::int64_t> ids);
  /// Returns how many steps have been looked at and not brought.
  std::size_t steps_looked_at() const { return looked_.size(); }
  /// Returns the rows that the next step reads.
  const std::vector<std::int64_t>& ids() const { return looked_.front().ids; }
  /// Waits for them: writes [ids(), width]. Throws what StateNetwork throws; where that left a wait, it may
  /// be called again, as step() may.
  void read(float* out);
  /// The same, and hands each lookup its row at once: writes [lookups, width]. `groups` are of ids().
  void read(const RowGroups& groups, float* out, const ParallelFor& parallel = serial_for);
  /// Brings what this rank has learned in the next step, of rows that it has looked at. Throws kInvalid for a
  /// sum with NaN or infinity; whatever it throws, the step has not been brought.
  void step(const RowSums& sums);
  /// The same of the gradients of lookups, [lookups, width], which are summed where they leave from.
  void step(const RowGroups& groups, const float* gradients, const ParallelFor& parallel = serial_for);
  /// Reads rows as `next_step()` steps have left them; does not belong to a step. Ids in any order.
  void pull(std::span<const std::int64_t> ids, float* out) const;
  // ---- checkpoints, as TableAtOwners has them: one rank asks, when all have brought next_step() steps and
  // none brings another
  std::vector<ShardSum> save(std::uint64_t checkpoint) const { return table_.save(checkpoint, next_step_); }
  /// Before the first look; the other ranks open the table afterwards.
  void restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards);
  void keep(std::vector<std::int64_t> checkpoints) const { table_.keep(std::move(checkpoints)); }
  void keep(std::uint64_t run, std::vector<std::int64_t> checkpoints) const {
    table_.keep(run, std::move(checkpoints));
  }

  /// Leaves without waiting for an owner's word, and does nothing more: the attempt is given up. Ranks that
  /// wait for this one hear so.
  void give_up() noexcept;
  /// Says that this rank brings no more steps.
  void leave();

 private:
  using Answer = std::shared_ptr<const RecycledBytes>;
  struct LookedAt {
    std::vector<std::int64_t> ids;
    std::vector<TableAtOwners::Part> parts;           // by owner
    std::vector<StateNetwork::Ticket> settled, rest;  // by owner
    std::vector<Answer> settled_came, rest_came;      // by owner; null: not yet
    bool read = false;
  };
  const Answer& awaited(StateNetwork::Ticket& ticket, Answer& came) const;
  template <class PlacesOf>
  void read_to(float* out, const PlacesOf& places_of, const ParallelFor& parallel);
  template <class WriteSum>
  void bring(std::span<const std::int64_t> rows, const WriteSum& write_sum, const ParallelFor& parallel);
  template <class WriteSum>
  std::vector<RecycledBytes> step_questions(std::span<const std::int64_t> rows, const WriteSum& write_sum,
                                            const ParallelFor& parallel) const;
  void take_answers();

  const TableAtOwners table_;
  std::int64_t next_step_;
  std::deque<LookedAt> looked_;                  // from next_step_ on
  std::deque<StateNetwork::Ticket> unanswered_;  // of steps that were brought
  bool left_ = false;
};

}  // namespace hopfeed
