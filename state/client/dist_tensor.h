// A DistTensor has a row for each node of a type, spread over the owners of its partitions, that any process
// reads and writes at any time. DGL has the like by this name.
//
// What is written is done exactly once, whatever happens on the way. Writes of one process to a row are done
// in their order; those of several in any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "state/client/table_at_owners.h"

namespace hopfeed {

class DistTensor {
 public:
  /// Opens or makes the table. Throws what TableAtOwners throws.
  DistTensor(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const TableSpec& spec);

  const TableSpec& spec() const { return table_.spec(); }
  std::int64_t rows() const { return table_.rows(); }

  /// Reads rows by dataset id: writes [ids, row_bytes]. Throws kInvalid for an id that has no row, and what
  /// StateNetwork throws, as all functions below. Any thread.
  void pull(std::span<const std::int64_t> ids, std::byte* out) const;
  /// Puts rows in place of those that are there, the last one where an id is there twice. It returns when the
  /// owners have done so.
  void push(std::span<const std::int64_t> ids, std::span<const std::byte> rows);
  /// Adds rows to those that are there.
  void add(std::span<const std::int64_t> ids, std::span<const std::byte> rows);

 private:
  void write(StateAsk how, std::span<const std::int64_t> ids, std::span<const std::byte> rows);
  void write_part(StateAsk how, std::span<const std::int64_t> ids, const std::byte* rows);

  const TableAtOwners table_;
  std::mutex mutex_;                        // messages leave in the order of their numbers
  std::vector<std::uint64_t> last_number_;  // by owner
};

}  // namespace hopfeed
