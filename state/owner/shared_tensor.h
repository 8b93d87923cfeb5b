// A SharedTensor is an owner's part of a table that anybody reads and writes at any time. A message that
// writes is done once, however often it comes: it carries its client and its number among those of the
// client, which come in order.
//
// One thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "state/owner/owned_rows.h"
#include "state/owner/table_spec.h"
#include "state/table/row_store.h"

namespace hopfeed {

class SharedTensor {
 public:
  /// `rows` must outlive it. Throws what RowStore throws.
  SharedTensor(const TableSpec& spec, const OwnedRows& rows);

  const TableSpec& spec() const { return spec_; }
  const RowStore& store() const { return store_; }

  /// Writes the rows of dataset ids: [ids, row_bytes]. Throws kInvalid for an id that lies elsewhere,
  /// kNoSpace for more than an answer holds.
  void read(std::span<const std::int64_t> ids, std::byte* out) const;

  enum class How { kReplace, kAdd };
  /// Writes `rows` [ids, row_bytes] in the order of ids: of one that is there twice the last replaces, and
  /// both are added. Sums of float16 and bfloat16 are made in float32 and rounded; those of int64 wrap. What
  /// was done before is not done again. Throws kInvalid for an id that lies elsewhere and for a number that
  /// skips one, kCorrupt for rows that are too few, kNoSpace for one client too many; then nothing is
  /// written.
  void write(std::uint64_t client, std::uint64_t number, std::span<const std::int64_t> ids,
             std::span<const std::byte> rows, How how);

  // ---- checkpoints
  /// Forgets what was written, and who has written what. Until restored() read() and write() throw
  /// kStateLost.
  void clear();
  /// Puts a row back that clear() took; [row_bytes].
  void restore(std::int64_t row, const std::byte* values);
  void restored() { whole_ = true; }
  /// Throws kStateLost where it went back to a checkpoint and has not all its rows.
  void require_whole() const;

 private:
  void first_value(std::int64_t row, std::byte* out) const;
  void add(std::byte* sum, const std::byte* more) const;

  const TableSpec spec_;
  const OwnedRows& rows_;
  RowStore store_;
  bool whole_ = true;
  std::map<std::uint64_t, std::uint64_t> last_;  // per client: the number of its last message
};

}  // namespace hopfeed
