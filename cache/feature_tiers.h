// Where whoever makes batches reads the rows of features from, and what it keeps of them in memory. It
// changes speed and memory, and no byte of a batch (docs/cache.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// kMemory: mapped files, which the page cache holds. kFile: read for each batch, past the page cache, for
/// features larger than memory.
enum class FeaturesFrom { kMemory, kFile };

/// "memory" or "file".
std::string to_string(FeaturesFrom from);
/// The inverse. Throws kInvalid.
FeaturesFrom features_from(const std::string& name);

struct FeatureTiers {
  FeaturesFrom from = FeaturesFrom::kMemory;
  /// Bytes of memory, shared by all workers, for rows that were read from files (cache/dynamic_cache.h), its
  /// bookkeeping included; 0: none. Only with kFile, or where partitions lie on other machines, for rows of
  /// these.
  std::size_t row_cache_bytes = 0;
  /// Batches that a worker samples ahead of the one that it gathers, so that the row cache knows which rows
  /// are needed soon; -1: 4, and 16 where batches have less than 512 seeds or rows are those of other
  /// machines. Without a row cache none are.
  std::int64_t window = -1;

  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option. `some_partitions`: others lie on other machines, whose rows the row
  /// cache is for.
  void validate(bool some_partitions = false) const;
  /// Batches of `seeds` that each of the workers samples ahead. All workers together tell the cache of no
  /// more than it can know at a time.
  std::int64_t window_for(std::int64_t seeds, std::int64_t num_workers, bool some_partitions = false) const;
};

/// More are no gain: a cache knows 32 batches at a time.
inline constexpr std::int64_t kMaxWindow = 31;

}  // namespace hopfeed
