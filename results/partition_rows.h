// PartitionRows are all rows of one partition of a table, mapped from its shards one behind the other.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/mapped_ranges.h"
#include "results/layer_files.h"

namespace hopfeed {

/// Shards of which all but the last have a multiple of so many rows lie one behind the other in memory.
inline constexpr std::int64_t kRowsTogether = 4'096;
inline constexpr std::int64_t kShardBytes = std::int64_t{32} << 20;
/// Returns how many rows a shard of about so many bytes has, a multiple of kRowsTogether.
constexpr std::int64_t shard_rows(std::int64_t row_bytes, std::int64_t shard_bytes = kShardBytes) {
  return std::max<std::int64_t>(shard_bytes / std::max<std::int64_t>(row_bytes, 1) / kRowsTogether, 1) *
         kRowsTogether;
}

class PartitionRows {
 public:
  /// Each shard is read once for its checksum. Throws kCorrupt naming a shard that is not there, or damaged.
  PartitionRows(const LayerFolder& folder, const LayerName& name, int partition, std::int64_t rows,
                std::int64_t row_bytes);
  ~PartitionRows();
  PartitionRows(const PartitionRows&) = delete;
  PartitionRows& operator=(const PartitionRows&) = delete;

  const std::byte* data() const { return data_; }

 private:
  void unmap();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<MappedRange*> ranges_;
};

}  // namespace hopfeed
