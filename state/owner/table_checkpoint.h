// What an owner does of a checkpoint: it writes the shard of a table (shard_file.h), takes rows back from
// shards, of its own cut or another, and removes those that nobody goes back to. Which shards make a
// checkpoint, a manifest says, which is written by whoever asks.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
  const std::atomic<bool>* given_up = nullptr;  // set: nobody wants it any more
};

/// Writes the shard of a table into the folder of a checkpoint. Its rows may be read meanwhile, and not
/// moved. Throws kIo or kNoSpace naming the file, kInvalid once it is given up; then none of its name has
/// changed.
ShardSum save_table(const std::filesystem::path& checkpoint, const OwnedTable& table);

/// Shards says which of those of a table an owner reads to go back.
enum class Shards {
  kOwn,  // the one of its own partitions; all where the checkpoint is of another cut
  kAll,
};
/// FoundShards are those that a manifest names and a table goes back to, once they were read and found to be
/// whole.
class FoundShards {
 public:
  /// Changes nothing. Throws kNotFound, kCorrupt or kInvalid naming the file.
  FoundShards(const std::filesystem::path& checkpoint, std::span<const ShardSum> shards, Shards which,
              const OwnedTable& table);
  const ShardHead& head() const { return files_.front()->head(); }
  /// Puts the rows that lie here into the table, which was cleared. Nobody else uses it meanwhile. Throws as
  /// above, and kInvalid once it is given up.
  RestoredShard put_into(const OwnedTable& table) const;

 private:
  std::vector<std::unique_ptr<ShardFile>> files_;
};

/// Removes this owner's shards of the table from all checkpoints of the run but those of `kept`.
void keep_checkpoints(const std::filesystem::path& folder, std::uint64_t run,
                      std::span<const std::int64_t> kept, const OwnedTable& table);

}  // namespace hopfeed
