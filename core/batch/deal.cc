// See deal.h.
#include "core/batch/deal.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/field_visitor.h"
#include "core/base/limits.h"

namespace hopfeed {

void DealOptions::visit(FieldVisitor& fields) {
  fields.whole(
      {.name = "batch_size", .help = "Seeds (or links) of a batch, for each trainer", .group = "fanouts"},
      batch_size, {1, kMaxBatchSize});
  fields.whole({.name = "rank", .help = "Which trainer's batches", .group = "deal"}, rank, {0, INT64_MAX});
  fields.whole({.name = "world_size", .help = "Trainers that share an epoch", .group = "deal"}, world_size,
               {1, kMaxWorldSize});
  fields.flag({.name = "drop_last",
               .help = "Drop the incomplete last round; otherwise it is spread evenly over the ranks",
               .group = "deal"},
              drop_last);
}

void DealOptions::validate() const {
  require_valid(batch_size >= 1 && batch_size <= kMaxBatchSize,
                fmt::format("{} is {}; choose 1 to {}", marked("batch_size"), batch_size, kMaxBatchSize));
  require_valid(world_size >= 1 && world_size <= kMaxWorldSize,
                fmt::format("{} is {}; choose 1 to {}", marked("world_size"), world_size, kMaxWorldSize));
  require_valid(rank >= 0 && rank < world_size,
                fmt::format("{} is {}; choose 0 to {} ({} {})", marked("rank"), rank, world_size - 1,
                            marked("world_size"), world_size));
}

Deal::Deal(const DealOptions& options, std::int64_t num_seeds, std::int64_t start)
    : options_(options), start_(start) {
  options.validate();
  const std::int64_t world = options.world_size;
  require_valid(start >= 0 && start <= num_seeds,
                fmt::format("start {} is not between 0 and the {} seeds", start, num_seeds));
  const std::int64_t left = num_seeds - start;
  const std::int64_t round = world * options.batch_size;
  full_rounds_ = left / round;
  const std::int64_t rest = left % round;
  if (rest > 0 && !options.drop_last) {
    // Fewer seeds than ranks would leave some rank without one: the last full round shares its seeds with
    // them.
    const bool share = rest < world && full_rounds_ > 0;
    if (share) --full_rounds_;
    spread_seeds_ = rest + (share ? round : 0);
    spread_batches_ = share ? 2 * world : world;
    require_valid(
        left >= world,
        fmt::format("{} seeds from position {} on cannot be dealt to {} trainers: each wants one; "
                    "use at most as many trainers as seeds{}",
                    left, start, world,
                    start > 0 ? fmt::format(", or {}, which leaves these out", marked("drop_last")) : ""));
    require_valid(spread_seeds_ >= spread_batches_,
                  fmt::format("{} seeds from position {} on cannot be dealt to {} trainers in batches of {} "
                              "without an empty batch; use fewer trainers, a larger batch size or {}",
                              left, start, world, options.batch_size, marked("drop_last")));
  }
  steps_ = full_rounds_ + spread_batches_ / world;
}

Deal::Range Deal::batch(std::int64_t step, std::int64_t rank) const {
  require_valid(
      step >= 0 && step < steps_ && rank >= 0 && rank < options_.world_size,
      fmt::format("no batch at step {} of {} for rank {} of {}", step, steps_, rank, options_.world_size));
  const std::int64_t batch = step * options_.world_size + rank, full = full_rounds_ * options_.world_size;
  if (batch < full) return {start_ + batch * options_.batch_size, options_.batch_size};
  const std::int64_t i = batch - full, small = spread_seeds_ / spread_batches_,
                     larger = spread_seeds_ % spread_batches_;
  return {start_ + full * options_.batch_size + i * small + std::min(i, larger),
          small + (i < larger ? 1 : 0)};
}

std::int64_t Deal::position_after(std::int64_t step) const {
  if (step == 0) return start_;
  const Range last = batch(step - 1, options_.world_size - 1);
  return last.first + last.count;
}

}  // namespace hopfeed
