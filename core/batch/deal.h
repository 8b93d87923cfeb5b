// A Deal gives the seeds of an epoch to ranks, in rounds of W batches: rank r takes the r-th of each round.
// All rounds are full but the last, whose seeds are spread over W batches that differ by at most one seed,
// the larger ones first; with fewer than W seeds left for it, the last two rounds are spread together. So
// every rank makes the same number of steps, and after each whole round the positions consumed are one range.
// It is pure arithmetic: any process computes any batch.
#pragma once
#include <cstdint>

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// DealOptions say who gets which positions of an epoch. They decide no byte of a batch, but which batches
/// there are.
struct DealOptions {
  std::int64_t batch_size = 1024;         // seeds (or links) of a batch
  std::int64_t rank = 0, world_size = 1;  // of the trainer that takes the batches
  bool drop_last = false;                 // drop the incomplete round instead of spreading it

  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option.
  void validate() const;
};

class Deal {
 public:
  struct Range {
    std::int64_t first = 0, count = 0;
  };
  /// `start` is the first position still to be dealt (a resumed run); start == num_seeds is valid and deals
  /// zero steps. Throws kInvalid where an option is out of range or some rank would get an empty batch (the
  /// message says which knob).
  Deal(const DealOptions& options, std::int64_t num_seeds, std::int64_t start = 0);

  std::int64_t steps() const { return steps_; }             // batches per rank
  Range batch(std::int64_t step, std::int64_t rank) const;  // 0 <= step < steps(), 0 <= rank < world_size
  Range batch(std::int64_t step) const { return batch(step, options_.rank); }
  /// Returns the first position not consumed after `step` whole rounds; `position_after(steps())` ends the
  /// epoch.
  std::int64_t position_after(std::int64_t step) const;

 private:
  DealOptions options_;
  std::int64_t start_;
  std::int64_t full_rounds_ = 0;     // rounds of W batches of batch_size
  std::int64_t spread_batches_ = 0;  // 0, W or 2W batches that share the rest
  std::int64_t spread_seeds_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace hopfeed
