// TableAtOwners is a table of state that is open at all its owners: which rows lie where, and how its
// questions begin.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "state/client/state_network.h"
#include "state/owner/state_questions.h"
#include "state/owner/table_checkpoint.h"
#include "state/owner/table_spec.h"

namespace hopfeed {

/// A RankOfRun is who learns: one of the ranks of a run, in one of its attempts.
struct RankOfRun {
  std::uint64_t run = 0;  // the same on all ranks, and on no other run
  std::uint32_t attempt = 0;
  std::int64_t rank = 0, ranks = 1;
  std::int64_t timeout_ms = 300'000;  // for a rank that is late
};

class TableAtOwners {
 public:
  /// Opens it at all owners. Throws what they refuse; kStateLost where they disagree about its steps.
  TableAtOwners(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const TableSpec& spec,
                const RankOfRun& rank = {});

  const TableSpec& spec() const { return spec_; }
  StateNetwork& network() const { return *network_; }
  int num_owners() const { return network_->num_owners(); }
  std::int64_t rows() const { return offsets_.back(); }
  std::int64_t steps_applied() const { return steps_applied_; }  // when it was opened
  /// Returns how many rows of a list go into a message, or an answer, where they may go into several: few
  /// enough that they stay in a core's cache from their gathering to their sending, and back again.
  std::size_t rows_of_a_message() const;
  /// How many of those are under way to an owner at a time, so that it works on one while others travel.
  static constexpr std::size_t kUnderWay = 4;
  /// Returns how many rows of a list are split at a time.
  std::size_t rows_at_once() const;

  /// Returns how a question to an owner begins.
  StateHead head(int owner, StateAsk ask, std::uint64_t number) const;
  /// Returns the owner of a row. Throws kInvalid for what is no dataset id of the node type.
  int owner_of(std::int64_t dataset_id) const;
  /// Part is what of a list of ids lies at an owner.
  struct Part {
    std::vector<std::int64_t> ids;
    std::vector<std::uint32_t> positions;  // in the list
  };
  /// Piece is some of a part, in its order.
  struct Piece {
    Piece(const Part& part) : ids(part.ids), positions(part.positions) {  // NOLINT: all of it
    }
    /// Of `part` those from `begin` on, `most` at most.
    Piece(const Part& part, std::size_t begin, std::size_t most)
        : ids(std::span(part.ids).subspan(begin).first(std::min(most, part.ids.size() - begin))),
          positions(std::span(part.positions).subspan(begin).first(ids.size())) {}
    std::span<const std::int64_t> ids;
    std::span<const std::uint32_t> positions;
  };
  /// Splits a list by owner, in its order: [num_owners()].
  std::vector<Part> split(std::span<const std::int64_t> dataset_ids) const;
  /// Reads rows, once `at` steps have been applied: writes [ids, row_bytes]. Long lists are asked for in
  /// parts.
  void pull(std::uint64_t at, std::span<const std::int64_t> dataset_ids, std::byte* out) const;
  /// Asks an owner with rows behind the ids: those of `rows` [list, row_bytes] that are the part's.
  StateNetwork::Ticket ask_with_rows(int owner, const StateHead& head, const Piece& piece,
                                     const std::byte* rows) const;

  // ---- checkpoints: one rank asks for all, while the others wait
  /// Has every owner write its shard of the table as `steps` steps leave it: [num_owners()] by partition, for
  /// a manifest.
  std::vector<ShardSum> save(std::uint64_t checkpoint, std::int64_t steps) const;
  /// Takes all owners back to a checkpoint, which may be of other owners and another cut. Returns the steps
  /// that had been applied. Throws kCorrupt where its rows are not all there.
  std::int64_t restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards) const;
  /// Removes the shards of all other checkpoints of a run, which is this one or one that is over.
  void keep(std::uint64_t run, std::vector<std::int64_t> checkpoints) const;
  void keep(std::vector<std::int64_t> checkpoints) const { keep(rank_.run, std::move(checkpoints)); }

 private:
  const std::shared_ptr<StateNetwork> network_;
  const TableSpec spec_;
  std::vector<std::shared_ptr<const RecycledBytes>> ask_all(StateAsk ask, std::int64_t steps,
                                                            std::vector<std::int64_t> numbers,
                                                            std::span<const std::byte> rest = {}) const;
  std::vector<RestoredShard> restored(std::uint64_t checkpoint, const std::vector<ShardSum>& shards,
                                      Shards which) const;
  std::size_t partition_of(std::int64_t dataset_id) const;
  void pull_part(std::uint64_t at, std::span<const std::int64_t> dataset_ids, std::byte* out) const;

  const RankOfRun rank_;
  const std::uint64_t client_;         // a random number of this object
  std::vector<std::int64_t> offsets_;  // [partitions + 1] of dataset ids
  std::vector<int> owners_;            // [partitions]
  std::vector<OpenedTable> opened_;    // by owner
  std::int64_t steps_applied_ = 0;
  mutable std::atomic<std::int64_t> last_message_{0};  // about checkpoints
};

}  // namespace hopfeed
