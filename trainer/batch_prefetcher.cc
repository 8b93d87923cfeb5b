// See batch_prefetcher.h.
#include "trainer/batch_prefetcher.h"

#include <utility>

namespace hopfeed {

BatchPrefetcher::BatchPrefetcher(BatchStream& stream, CopyStream* copies, Make make, std::int64_t most)
    : stream_(stream), copies_(copies), make_(std::move(make)), left_(most) {}

BatchPrefetcher::~BatchPrefetcher() {
  if (copies_ == nullptr || !ahead_) return;
  try {
    copies_->hand_over();
    copies_->release();
  } catch (const std::exception&) {  // whoever waits for the device next is told
  }
}

std::optional<PlacedBatch> BatchPrefetcher::take() {
  if (left_ <= 0) return {};
  --left_;
  if (copies_ != nullptr) copies_->release();
  const std::optional<Batch> batch = stream_.next();
  if (!batch) {
    left_ = 0;
    return {};
  }
  const auto make = [&] { return make_(*batch, copies_); };
  return PlacedBatch{.tensors = copies_ == nullptr ? make() : copies_->run(make),
                     .position = stream_.next_position()};
}

std::optional<PlacedBatch> BatchPrefetcher::next() {
  if (copies_ == nullptr) return take();
  if (!ahead_) ahead_ = take();
  if (!ahead_) return {};
  copies_->hand_over();
  std::optional<PlacedBatch> ready = std::exchange(ahead_, {});
  ahead_ = take();
  return ready;
}

}  // namespace hopfeed
