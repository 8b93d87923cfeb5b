// What an owner does of a checkpoint: it writes the shard of a table (shard_file.h), takes rows back from
// shards, of its own cut or another, and removes those that nobody goes back to. Which shards make a
// checkpoint, a manifest says, which is written by whoever asks.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "state/owner/owned_rows.h"
#include "state/owner/shard_file.h"
#include "state/owner/shared_embedding.h"
#include "state/owner/shared_tensor.h"

namespace hopfeed {

/// An OwnedTable is a table as it lies at an owner: one of two kinds.
struct OwnedTable {
  const TableSpec& spec;
  const OwnedRows& rows;
  const std::string& fingerprint;  // of the dataset
  SharedTensor* tensor = nullptr;
  SharedEmbedding* embedding = nullptr;
};

/// Writes the shard of a table into the folder of a checkpoint. Throws kIo or kNoSpace naming the file; then
/// none of its name has changed.
ShardSum save_table(const std::filesystem::path& checkpoint, const OwnedTable& table);

/// Shards says which of those of a table an owner reads to go back.
enum class Shards {
  kOwn,  // the one of its own partitions; all where the checkpoint is of another cut
  kAll,
};
/// Takes a table back to a checkpoint: rows that lie here, of the shards that a manifest names. All are read
/// before anything is changed. Throws kNotFound, kCorrupt or kInvalid naming the file.
RestoredShard restore_table(const std::filesystem::path& checkpoint, std::span<const ShardSum> shards,
                            Shards which, const OwnedTable& table);

/// Removes this owner's shards of the table from all checkpoints of the run but those of `kept`.
void keep_checkpoints(const std::filesystem::path& folder, std::uint64_t run,
                      std::span<const std::int64_t> kept, const OwnedTable& table);

}  // namespace hopfeed
