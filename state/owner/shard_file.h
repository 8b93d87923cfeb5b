// A shard file has the rows of a table that lie at an owner, as they were at a checkpoint: those that were
// written, and no other, by original id. docs/formats.md has every byte. It appears whole or not at all.
//
//   DIR/<run, 16 hex digits>/<checkpoint>/<table>.<first partition of the owner>.rows
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/owned_fd.h"
#include "state/owner/table_spec.h"
#include "state/table/row_formulas.h"

typedef struct XXH3_state_s XXH3_state_t;

namespace hopfeed {

/// A ShardHead says whose rows a shard has.
struct ShardHead {
  TableSpec spec;
  std::string fingerprint;               // of the dataset
  std::vector<std::int64_t> partitions;  // those of its owner
  std::int64_t num_partitions = 1;       // that the dataset is cut into
  std::int64_t steps = 0;                // that had been applied; 0 for a tensor
  StepCount count;                       // the optimizer's
  std::int64_t rows = 0,
               row_bytes = 0;  // rows that follow, and bytes of each: values, then optimizer's state
};

/// Returns the bytes of a row in a shard: its values, and the state of its optimizer.
std::int64_t stored_row_bytes(const TableSpec& spec);

/// A ShardSum says what a shard file holds: a manifest has it, and a file that differs is refused.
struct ShardSum {
  std::int64_t first_partition = 0;  // of the owner, which names the file
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  // of the file
  std::uint64_t xxh3 = 0;  // of all its bytes but the last 8, which say the same

  bool operator==(const ShardSum&) const = default;
};
static_assert(sizeof(ShardSum) == 32);

/// RestoredShard is what an owner has of a checkpoint that it went back to.
struct RestoredShard {
  std::int64_t rows = 0, steps = 0;
};

/// Returns where the shards of a checkpoint lie.
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, std::uint64_t run,
                                        std::uint64_t checkpoint);
std::filesystem::path shard_path(const std::filesystem::path& checkpoint, const std::string& table,
                                 std::int64_t first_partition);

class ShardWriter {
 public:
  /// Makes the folder. Throws kIo or kNoSpace naming the file, as all functions do.
  ShardWriter(const std::filesystem::path& path, const ShardHead& head);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Appends a row: head.rows of them, in any order of ids.
  void add(std::int64_t original_id, const std::byte* row);
  /// Puts the file in its place, where it outlasts a power failure.
  ShardSum commit();

 private:
  void write(std::span<const std::byte> bytes);
  void write_block();

  AtomicFile file_;
  std::unique_ptr<XXH3_state_t, void (*)(XXH3_state_t*)> hash_;
  const std::int64_t first_partition_;
  const std::size_t row_bytes_;
  std::vector<std::int64_t> ids_;  // of a block that is not full
  std::vector<std::byte> rows_;
  const std::int64_t rows_of_head_;
  std::int64_t rows_written_ = 0, bytes_ = 0, handed_over_ = 0;  // bytes that the disk has been told of
};

/// A ShardFile is one that is read, and whose bytes were found to be those that were written. It is not
/// mapped: who cuts a file short that is mapped ends the server.
class ShardFile {
 public:
  /// Throws kNotFound where there is no such file, kCorrupt naming it where it is damaged or none. It reads
  /// all of it, and calls `each_part`, which may throw, for every few MiB.
  explicit ShardFile(
      const std::filesystem::path& path, const std::function<void()>& each_part = [] {});

  const ShardHead& head() const { return head_; }
  ShardSum sum() const;
  /// Calls `each(original_ids [n], rows [n, head().row_bytes])` for parts of a few MiB.
  void for_each(const std::function<void(std::span<const std::int64_t> original_ids, const std::byte* rows)>&
                    each) const;
  /// The same with the ids alone, until all were there or `each` says false.
  void for_each_ids(const std::function<bool(std::span<const std::int64_t> original_ids)>& each) const;

 private:
  [[noreturn]] void damaged(const std::string& why) const;

  std::uint64_t digest(std::size_t bytes, const std::function<void()>& each_part) const;
  void read(std::size_t at, std::span<std::byte> out) const;

  const std::filesystem::path path_;
  const OwnedFd file_;
  std::size_t bytes_ = 0;
  std::uint64_t xxh3_ = 0;
  ShardHead head_;
  std::size_t first_row_ = 0;  // where it begins
};

}  // namespace hopfeed
