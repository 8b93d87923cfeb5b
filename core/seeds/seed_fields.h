// SeedFields are what a batch starts from, and the fields of a batch that tell of it: nodes (node_fields.h)
// or links (link_fields.h). BatchMaker asks for the seeds of a batch, has them sampled, and lets what belongs
// to them be laid out and written among the other arrays.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/block_writer.h"
#include "core/draws/excluded_edges.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

/// SeedArrays are the numbers of the arrays in a block that belong to the seeds; -1: not in this batch.
struct SeedArrays {
  int input_id = -1, batch_size = -1, seed_index = -1, seed_time = -1;
  int edge_label_index = -1, edge_label = -1, edge_label_time = -1;
  int src_index = -1, dst_pos_index = -1, dst_neg_index = -1, num_negative_retries = -1;
};

/// The layout of the arrays depends on nothing else.
struct SeedRoom {
  std::int64_t positions = 0;  // of the epoch, that the batch covers
  bool seeds_repeat = false;
};

class SeedFields {
 public:
  virtual ~SeedFields() = default;
  /// Returns the positions of an epoch.
  virtual std::int64_t size() const = 0;
  /// Returns the seeds of a batch, views that hold until the next call. Throws kInvalid for a key outside the
  /// list.
  virtual std::span<const TypedSeeds> seeds(const BatchKey& key) = 0;
  /// Makes the seeds of a batch that is likely to be the next: any other may come all the same, and what goes
  /// wrong is thrown when it does. Takes as much memory again, of which scratch_bytes() does
  /// not tell. What seeds() gave holds.
  virtual void expect(const BatchKey& key) = 0;
  /// Returns the edges that neighbours must not come by in the batch of the last seeds(); null: none.
  virtual const ExcludedEdges* excluded() const = 0;
  /// Returns a bound on the seeds of each type in a batch of so many positions.
  virtual std::vector<SeedCount> most_seeds(std::int64_t positions) const = 0;
  /// Announces the arrays of one node or edge type.
  virtual void lay_out(Store store, int type, const SeedRoom& room, BlockWriter& out,
                       SeedArrays& at) const = 0;
  /// Fills all arrays for the last seeds().
  virtual void write(const Sample& sample, const SeedArrays& at, BlockWriter& out) const = 0;
  /// Writes the field `batch` of disjoint batches: which of the batch's positions each tree belongs to.
  virtual void write_owners(std::span<const std::int64_t> trees, std::int64_t* out) const = 0;
  /// Returns all memory that it holds now.
  virtual std::size_t bytes() const = 0;
  /// Returns the memory that does not depend on the batch, and what batches of at most so many positions take
  /// beside it.
  virtual std::size_t table_bytes() const = 0;
  virtual std::size_t scratch_bytes(std::int64_t positions) const = 0;
};

}  // namespace hopfeed
