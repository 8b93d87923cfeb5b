// The seed positions of an epoch: a list of original node ids and its keyed shuffle, evaluated per position.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch_layout.h"
#include "core/dataset.h"

namespace hopfeed {

struct SeedListOptions {
  int node_type = 0;
  bool shuffle = true;
};

class SeedList {
 public:
  /// `original_ids` must outlive the list (a split of a Dataset does). Throws kInvalid for an empty list.
  SeedList(std::span<const std::int64_t> original_ids, SeedListOptions options);

  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  int node_type() const { return options_.node_type; }
  bool shuffled() const { return options_.shuffle; }
  struct Positions {
    std::vector<std::int64_t> index;        // position in the original list (PyG's input_id)
    std::vector<std::int64_t> original_id;  // the seed there
  };
  /// The seeds of one batch, into reused memory. Throws kInvalid where [first, first + count) leaves the list.
  void seeds(const BatchKey& key, Positions& out) const;

 private:
  std::span<const std::int64_t> ids_;
  SeedListOptions options_;
};

}  // namespace hopfeed
