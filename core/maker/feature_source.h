// A FeatureSource gives rows of an attribute, by dataset id. A batch takes two calls: how many rows a block
// carries decides its size, which is asked for before a byte of it can be written:
//
//   std::size_t rows = source.prepare(ids);   // the block gets so many rows; a source may start to read
//   source.gather(rows, out);                 // or in several calls, the next rows each
//
// The first source is the mapped array (mapped_features.h). Others may know rows that need not be in the
// block, such as those that a cache holds where they are used; may read from a file, beginning in prepare();
// or may ask another machine. Calls are per batch, so that a source can be behind an interface.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/batch/batch_layout.h"
#include "core/batch/tier_counts.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  /// Begins a batch with the rows of `ids`, which the caller has checked and which stay as they are until its
  /// rows are gathered. Returns how many rows gather() will write, at most as many as there are ids. A batch
  /// that was begun need not be gathered. Steady states allocate nothing.
  virtual std::size_t prepare(std::span<const std::int64_t> ids) = 0;
  /// Writes the next `rows` of the rows that prepare() told of, in the order of the ids, without gaps. Any
  /// number of calls, which together write all of them.
  virtual void gather(std::size_t rows, std::byte* out) = 0;
  /// Gives up the batch that was begun: lets go of what is kept for it.
  virtual void drop() {}
  /// Returns the rows that it gave since it was made, by where they were read.
  virtual TierCounts counts() const = 0;
};

/// A FeatureName is an attribute of a node type (Store::kNode) or of an edge type (Store::kEdge).
struct FeatureName {
  Store store = Store::kNode;
  int type = 0;
  std::string name;
};

/// Makes the source of an attribute that the dataset has; `dataset` must outlive it. Rows have the dataset's
/// element type and shape, whatever the source.
using FeatureSourceFactory =
    std::function<std::unique_ptr<FeatureSource>(const Dataset& dataset, const FeatureName& feature)>;

}  // namespace hopfeed
