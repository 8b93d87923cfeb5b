// A DealPlan is the plan of one rank's epoch: its batches in the order of the deal.
#pragma once
#include <cstdint>
#include <optional>

#include "channel/batch_plan.h"
#include "core/batch/deal.h"

namespace hopfeed {

class DealPlan final : public BatchPlan {
 public:
  struct Options {
    std::int64_t epoch = 0, rank = 0;
    std::uint64_t first_sequence = 0;  // of step 0; above all that the channel has seen
  };
  DealPlan(const Deal& deal, const Options& options) : deal_(deal), options_(options) {}

  const Deal& deal() const { return deal_; }
  std::uint64_t sequence_of(std::int64_t step) const {
    return options_.first_sequence + static_cast<std::uint64_t>(step);
  }
  /// Returns a sequence above all that it has planned: where the plan after this one may begin.
  std::uint64_t next_sequence() const { return sequence_of(planned_); }

  std::optional<PlannedBatch> next() override {
    if (left() == 0) return {};
    const Deal::Range range = deal_.batch(planned_, options_.rank);
    return PlannedBatch{.sequence = sequence_of(planned_++),
                        .epoch = options_.epoch,
                        .first = range.first,
                        .count = range.count};
  }
  std::int64_t left() const override { return deal_.steps() - planned_; }

 private:
  const Deal deal_;
  const Options options_;
  std::int64_t planned_ = 0;  // steps
};

}  // namespace hopfeed
