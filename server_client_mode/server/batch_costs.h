// BatchCosts are what batches cost, learnt from those that were made: by their job and about how many seeds
// they have.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "channel/batch_plan.h"

namespace hopfeed {

class BatchCosts {
 public:
  /// A batch is a long one from `takes_long` seconds on.
  explicit BatchCosts(double takes_long) : takes_long_(takes_long) {}

  /// Batches of one Kind cost about the same.
  struct Kind {
    std::uint32_t job = 0;
    int magnitude = 0;  // bits of the number of seeds
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  static Kind kind_of(const BatchRequest& batch);

  struct Cost {
    double seconds = 0;  // of a worker
    double bytes = 0;    // of the block
    bool is_long = false;
  };
  /// Returns what such a batch cost lately; of a kind that nothing is known of: a little time, no bytes, and
  /// long where there are many seeds.
  Cost of(const BatchRequest& batch) const;
  bool knows(const Kind& kind) const { return costs_.contains(kind); }

  void learn(const Kind& kind, double seconds, std::size_t bytes);
  void forget(std::uint32_t job);

 private:
  const double takes_long_;
  std::map<Kind, Cost> costs_;
};

}  // namespace hopfeed
