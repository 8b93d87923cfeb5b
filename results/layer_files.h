// Layers of an inference lie in files between: a row for each node of a type, in shards of one partition
// each. A shard is there whole or not at all, so a killed run goes on from those that are there, and other
// machines may read them while the run goes on.
//
//   FOLDER/layers/<table>/<node type>/p<partition>-r<first row>.rows
//
// A shard has its rows, one behind the other, and behind them a ShardFoot. docs/formats.md has the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/mapped_file.h"

namespace hopfeed {

/// A RunId names what decides the bytes of a run's rows: model, dataset, cut, Torch and processor.
struct RunId {
  std::uint64_t high = 0, low = 0;
  bool operator==(const RunId&) const = default;
};
/// 32 hex digits.
std::string to_text(RunId run);
/// Throws kCorrupt for anything else.
RunId run_id_of(const std::string& text);

/// A LayerName is a table of rows for the nodes of a type: what a layer gives, or reads.
struct LayerName {
  std::string table;      // 1 to 64 of a-z, 0-9, '.', '_', '-', the first no '.'
  std::string node_type;  // as in the dataset
  auto operator<=>(const LayerName&) const = default;
};
/// Returns whether it may be part of a path.
bool is_layer_name(const LayerName& name);

/// ShardFoot ends a shard's file, little-endian.
struct ShardFoot {
  std::uint64_t magic = kMagic;
  std::uint64_t run_high = 0, run_low = 0;
  std::uint64_t first = 0, rows = 0, row_bytes = 0;  // `first` is the first row's number in its partition
  std::uint64_t checksum = 0;                        // XXH3-64 of the rows
  std::uint64_t of_foot = 0;                         // XXH3-64 of what is above

  static constexpr std::uint64_t kMagic = 0x3153574F524648;  // "HFROWS1"
};

/// ShardRows are the rows that one shard holds.
struct ShardRows {
  int partition = 0;
  std::int64_t first = 0, count = 0, row_bytes = 0;
};

/// Where rows of layers lie: those of a run, or copies of other machines' rows (its `boundary`).
struct LayerFolder {
  std::filesystem::path path;  // <folder>/layers
  RunId run;
  Sync sync = Sync::kYes;  // of what is written

  std::filesystem::path table_folder(const LayerName& name) const {
    return path / name.table / name.node_type;
  }
  std::filesystem::path shard_path(const LayerName& name, int partition, std::int64_t first) const;

  /// Writes a shard: synced, then renamed. Throws kNoSpace or kIo naming it; nothing is left of it then.
  void write(const LayerName& name, const ShardRows& shard, std::span<const std::byte> rows) const;
  /// Returns whether the shard is there.
  bool has(const LayerName& name, int partition, std::int64_t first) const;
  /// Returns the first rows of a partition's shards that are there, rising.
  std::vector<std::int64_t> firsts(const LayerName& name, int partition) const;
  /// Removes a table's rows; none there is none removed.
  void remove(const LayerName& name) const;
};

/// A LayerShard is a shard's file, mapped.
class LayerShard {
 public:
  /// Throws kNotFound, kCorrupt naming it where it is no shard, or is damaged, kInvalid where it is of
  /// another run. Its rows are read once for their checksum.
  LayerShard(const std::filesystem::path& path, RunId run);

  std::int64_t first() const { return static_cast<std::int64_t>(foot_.first); }
  std::int64_t rows() const { return static_cast<std::int64_t>(foot_.rows); }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(foot_.row_bytes); }
  std::span<const std::byte> bytes() const { return file_.bytes().first(foot_.rows * foot_.row_bytes); }

 private:
  MappedFile file_;
  ShardFoot foot_;
};

}  // namespace hopfeed
