// See batch_window.h.
#include "worker_mode/batch_window.h"

#include <algorithm>

namespace hopfeed {

bool BatchWindow::step() {
  fill();
  return !under_way_.empty() && finish_lowest();
}

void BatchWindow::fill() {
  if (under_way_.empty()) {
    if (const std::optional<Claim> claim = port_.claim(options_.nap)) begin(*claim);
  }
  while (!under_way_.empty() && !options_.leaving()) {
    const std::int64_t ahead = options_.ahead(under_way_.front()->claim().batch);
    if (std::ssize(under_way_) > ahead) return;
    const std::optional<Claim> claim = port_.try_claim();
    if (!claim) return;
    begin(*claim);
  }
}

void BatchWindow::begin(const Claim& claim) {
  BatchFiller* const filler = options_.filler(claim);
  if (filler == nullptr) return;
  filler->begin(claim);
  if (!filler->under_way()) return;  // an error was published in the batch's place
  // A dead worker's batch comes again, below those that were claimed since.
  const auto place = std::ranges::upper_bound(
      under_way_, claim.batch.sequence, {}, [](BatchFiller* other) { return other->claim().batch.sequence; });
  under_way_.insert(place, filler);
}

bool BatchWindow::finish_lowest() {
  BatchFiller* const lowest = under_way_.front();
  // Its sample may be another thread's work: meanwhile further batches may be planned.
  while (!lowest->await_sample(options_.nap)) {
    if (options_.leaving()) return false;
    fill();
    if (under_way_.front() != lowest) return false;
  }
  lowest->ask();
  while (!lowest->try_finish()) {
    port_.await_grant(lowest->claim(), lowest->bytes(), options_.nap);
    if (options_.leaving()) return false;
  }
  under_way_.erase(under_way_.begin());
  return true;
}

}  // namespace hopfeed
