// What is asked of owners of state, and what they answer, as bytes. A question begins with a StateHead;
// arrays begin at multiples of 8, and numbers are little-endian.
//
//   open      a table, by its spec, for a run or for anybody       a number for it, and what there is of it
//   pull      rows of any nodes, once so many steps are applied    them
//   write     rows in place of those that are there                nothing; done once, however often it comes
//   add       rows that are added to those that are there          likewise
//   look      the rows that a rank reads in a step                 those that are settled, and which are not
//   rest                                                           those that were not
//   step      the sums of a rank's gradients                       how many steps are applied
//   leave     a rank brings nothing any more                       nothing
//   save      a shard for a checkpoint, once so many steps are     what it holds
//             applied
//   restore   the rows of a checkpoint in place of all             how many are here, and their steps
//   keep      the checkpoints to which somebody may go back        nothing; shards of others are removed
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/recycled_bytes.h"
#include "state/owner/shard_file.h"

namespace hopfeed {

enum class StateAsk : std::uint32_t {
  kOpen = 1,
  kPull = 2,
  kWrite = 3,
  kAdd = 4,
  kLook = 5,
  kRest = 6,
  kStep = 7,
  kLeave = 8,
  kSave = 9,
  kRestore = 10,
  kKeep = 11,
};

struct StateHead {
  StateAsk ask{};
  std::uint32_t table = 0;    // the owner's number for it, as open has told; 0 in open
  std::uint64_t owner = 0;    // which start of the owner has told that number; 0 in open
  std::uint64_t run = 0;      // of ranks; 0: nobody's
  std::uint32_t attempt = 0;  // of the run
  std::uint32_t rank = 0;
  /// look, rest, step: the step. pull, save: steps that have been applied. write, add: the message's number
  /// among those of its client to this table, from 1 on.
  std::uint64_t number = 0;
  std::uint64_t client = 0;  // a random number of who asks; of all but pull
  /// Ids that follow, 8 bytes each; of open the bytes of its JSON. save, restore and keep have there the
  /// message's number among those of its client, and then the checkpoint's number, that and a Shards
  /// (table_checkpoint.h), or a run and those of its that stay.
  std::uint64_t rows = 0;
  std::uint64_t rows_of_all_owners = 0;  // of step
};
static_assert(sizeof(StateHead) == 64);

/// A StateQuestion is one as it was read: its arrays lie in the bytes.
struct StateQuestion {
  StateHead head;
  std::span<const std::int64_t> ids;
  std::span<const std::byte> rest;  // rows, sums, JSON, or of restore each ShardSum of the manifest
};
/// Throws kCorrupt.
StateQuestion read_state_question(std::span<const std::byte> bytes);
/// Writes one; `fill` writes what stands behind the ids, `rest_bytes` of it.
RecycledBytes write_state_question(StateHead head, std::span<const std::int64_t> ids,
                                   std::size_t rest_bytes = 0,
                                   const std::function<void(std::byte* out)>& fill = nullptr);
/// Writes one that opens a table, by JSON.
RecycledBytes write_opening(StateHead head, const std::string& json);

// ---- answers

struct OpenedTable {
  std::uint32_t table = 0, unused = 0;
  std::uint64_t owner = 0;
  std::int64_t steps_applied = 0, rows = 0, learned = 0;  // rows that lie here, and those that were written
};
RecycledBytes write_opened(const OpenedTable& opened);
OpenedTable read_opened(std::span<const std::byte> answer);

RecycledBytes write_shard_sum(const ShardSum& sum);
ShardSum read_shard_sum(std::span<const std::byte> answer);
RecycledBytes write_restored(const RestoredShard& restored);
RestoredShard read_restored(std::span<const std::byte> answer);

RecycledBytes write_steps_applied(std::int64_t steps);
std::int64_t read_steps_applied(std::span<const std::byte> answer);

/// Throws kNoSpace where `count` rows of `row_bytes` of a table are more than an answer holds.
void require_answer_holds(std::size_t count, std::int64_t row_bytes, const std::string& table);

/// Rows as pull and rest answer them; `fill` writes count * row_bytes.
RecycledBytes write_rows(std::size_t count, std::size_t row_bytes,
                         const std::function<void(std::byte* out)>& fill);
/// Throws kCorrupt unless there are `count` of `row_bytes`.
std::span<const std::byte> read_rows(std::span<const std::byte> answer, std::size_t count,
                                     std::size_t row_bytes);

/// What look answers: of `rows` rows those whose bit is not in `later` [(rows + 7) / 8; empty: none]; `fill`
/// writes them, [n, width].
RecycledBytes write_look(std::size_t rows, std::span<const std::uint8_t> later, std::int64_t width,
                         const std::function<void(float* out)>& fill);
inline bool is_later(std::span<const std::uint8_t> later, std::size_t row) {
  return !later.empty() && (later[row / 8] >> (row % 8) & 1) != 0;
}
struct Looked {
  std::span<const std::uint8_t> later;  // as above
  std::span<const float> settled;       // [n, width]
};
/// Throws kCorrupt.
Looked read_look(std::span<const std::byte> answer, std::size_t rows, std::int64_t width);

}  // namespace hopfeed
