// A DistTensor has a row for each node of a type, spread over the owners of its partitions, that any process
// reads and writes at any time. DGL has the like by this name.
//
// What is written is done exactly once, whatever happens on the way. Writes of one process to a row are done
// in their order; those of several in any.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "state/client/table_at_owners.h"

namespace hopfeed {

class DistTensor {
 public:
  /// Opens or makes the table. Throws what TableAtOwners throws.
  /// `run` and its attempt are those whose checkpoints it has.
  DistTensor(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const TableSpec& spec,
             const RankOfRun& run = {});

  const TableSpec& spec() const { return table_.spec(); }
  std::int64_t rows() const { return table_.rows(); }

  /// Reads rows by dataset id: writes [ids, row_bytes]. Throws kInvalid for an id that has no row, and what
  /// StateNetwork throws, as all functions below. Any thread.
  void pull(std::span<const std::int64_t> ids, std::byte* out) const;
  /// Puts rows in place of those that are there, the last one where an id is there twice. It returns when the
  /// owners have done so; one that holds as much as it can while it writes a checkpoint is asked again.
  /// Throws kBusy where that takes longer than `run` waits for a rank. Any thread, one after the other.
  void push(std::span<const std::int64_t> ids, std::span<const std::byte> rows);
  /// Adds rows to those that are there.
  void add(std::span<const std::int64_t> ids, std::span<const std::byte> rows);

  // ---- checkpoints, as TableAtOwners has them: one process asks, while nobody writes; others open the table
  // anew after restore()
  std::vector<ShardSum> save(std::uint64_t checkpoint) const { return table_.save(checkpoint, 0); }
  void restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards);
  void keep(std::vector<std::int64_t> checkpoints) const { table_.keep(std::move(checkpoints)); }

 private:
  void write(StateAsk how, std::span<const std::int64_t> ids, std::span<const std::byte> rows);
  /// Message is one that is under way to an owner.
  struct Message {
    std::size_t owner;
    std::uint64_t number;
    TableAtOwners::Piece piece;
    StateNetwork::Ticket ticket;
  };
  void write_part(StateAsk how, std::span<const std::int64_t> ids, const std::byte* rows);
  void ask(StateAsk how, Message& message, const std::byte* rows) const;
  bool is_done(const Message& message, bool may_be_busy) const;
  void ask_again(StateAsk how, std::deque<Message>& under_way, const std::byte* rows) const;

  const TableAtOwners table_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;                        // whoever writes: messages come in the order of their numbers
  std::vector<std::uint64_t> last_number_;  // by owner
};

}  // namespace hopfeed
