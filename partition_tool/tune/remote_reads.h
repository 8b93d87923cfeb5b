// RemoteReads are what one partition's training nodes read of the others: the rows of other partitions in the
// batches that its machine makes, and what a cache in front of them would have had, by several rankings
// (docs/cache.md, "Rows of other partitions").
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "partition_tool/tune/next_use.h"

namespace hopfeed {

struct RemoteReadsOptions {
  BatchOptions batch;
  std::int64_t batch_size = 1024;
  int node_type = 0;          // of the seeds
  std::int64_t batches = 40;  // one behind the other, as a machine makes them, into the next epochs
  std::uint64_t seed = 0;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // may throw to stop
};

/// They are the rows that a reader reads, of all node types that have attributes. Remote rows have numbers:
/// their place in the reader's own ranking (remote_ranks.h), behind them those that it leaves out, in their
/// owners' order.
class RemoteReads {
 public:
  /// Makes the batches. `seeds` are original ids. Throws kInvalid where there is no partition `reader`, and
  /// what BatchMaker and RemoteRanks throw.
  RemoteReads(const Dataset& dataset, int reader, std::span<const std::int64_t> seeds,
              const RemoteReadsOptions& options);

  /// Returns the trace for the simulations of next_use.h, whose number of a row is its place in the reader's
  /// ranking.
  const RowTrace& trace() const { return trace_; }
  std::int64_t remote_rows() const { return trace_.num_rows; }  // remote rows that there are
  std::int64_t remote_reads() const { return remote_reads_; }   // of all batches
  std::int64_t own_reads() const { return own_reads_; }

  /// Returns the reads of remote rows that a static cache of the first `capacity` rows by another ranking
  /// has. `hotness` per node type [N] by dataset id, the hotter the larger; what is equally hot by its
  /// owners' order.
  CacheHits static_by(std::span<const std::vector<double>> hotness, std::int64_t capacity) const;
  /// Returns those reads by the rows' places in their owners' order, and by the reads of these very batches,
  /// which no ranking exceeds.
  CacheHits static_by_owners(std::int64_t capacity) const;
  CacheHits static_by_reads(std::int64_t capacity) const;

 private:
  struct Row {
    int type = 0;
    std::int64_t id = 0;
  };
  void number_rows(const Dataset& dataset, int reader);
  CacheHits first_of(std::span<const std::int64_t> order, std::int64_t capacity) const;
  /// Orders by `better(a, b)` of row numbers; equal ones keep their owners' order.
  template <class Better>
  CacheHits static_in_order(const Better& better, std::int64_t capacity) const;

  RowTrace trace_;
  std::vector<std::vector<std::int64_t>> number_of_;  // [node types][N]; empty: rows without attributes
  std::vector<Row> rows_;                             // by number
  std::vector<std::int64_t> owners_;                  // numbers in the owners' order
  std::vector<std::int64_t> reads_;                   // by number
  std::int64_t remote_reads_ = 0, own_reads_ = 0;
};

/// Returns those of `seeds` (original ids) that lie in the partition, in their order; all of them where none
/// does.
std::vector<std::int64_t> own_seeds(const Dataset& dataset, int node_type,
                                    std::span<const std::int64_t> seeds, int partition);

}  // namespace hopfeed
