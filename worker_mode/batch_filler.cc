// See batch_filler.h.
#include "worker_mode/batch_filler.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/batch/batch_view.h"
#include "core/batch/nonfinite.h"
#include "core/batch/packed_block.h"

namespace hopfeed {

template <class Part>
void BatchFiller::publish_what_it_throws(const Part& part) {
  const Claim claim = *claim_;
  const auto publish = [&](ErrorCode code, std::string_view message) {
    claim_.reset();
    let_go();
    port_.publish_error(claim, code, message);
  };
  try {
    part();
  } catch (const BrokenProcess& error) {
    if (options_.ends_when_broken) throw;
    publish(error.code(), error.message());
  } catch (const Error& error) {
    publish(error.code(), error.message());
  } catch (const std::bad_alloc&) {
    publish(ErrorCode::kNoSpace,
            fmt::format("there is no memory for the batch of {} seeds from position {}: "
                        "lower {}, fanouts or {}",
                        claim.batch.count, claim.batch.first, marked("batch_size"), marked("num_workers")));
  } catch (const std::exception& error) {
    publish(ErrorCode::kIo, fmt::format("the batch failed: {}", error.what()));
  }
}

/// Drops what is kept for a batch that is not written. Where that fails, the next batch meets it.
void BatchFiller::let_go() noexcept {
  try {
    maker_.drop();
  } catch (...) {
  }
}

void BatchFiller::begin(const Claim& claim) {
  claim_ = claim;
  asked_ = false;
  port_.note_working(claim);
  if (options_.turn != nullptr) options_.turn->join(claim.batch.sequence);
  if (options_.samples_in_background) return background_.start([this] { sample(); });
  publish_what_it_throws([&] {
    sample();
    port_.note_sampled(*claim_);
  });
}

bool BatchFiller::await_sample(std::chrono::milliseconds limit) {
  if (!under_way() || !background_.under_way()) return true;
  bool ended = false;
  publish_what_it_throws([&] {
    ended = background_.finish(limit);
    if (ended) port_.note_sampled(*claim_);
  });
  return ended || !under_way();
}

void BatchFiller::sample() {
  const struct LeavesTurn {  // whatever came of it, those behind it go on
    AnnounceTurn* const turn;
    ~LeavesTurn() {
      if (turn != nullptr) turn->leave();
    }
  } leaves_turn{options_.turn};
  if (FAILPOINT("worker.batch")) throw Error(ErrorCode::kIo, "failpoint worker.batch");
  if (FAILPOINT("worker.allocate")) throw std::bad_alloc();
  if (FAILPOINT("worker.broken")) throw BrokenProcess(ErrorCode::kIo, "failpoint worker.broken");
  const PlannedBatch& batch = claim_->batch;
  bytes_ = maker_.sample(
      {.seed = options_.seed, .epoch = batch.epoch, .first = batch.first, .count = batch.count}, batch.held);
  FAILPOINT("worker.after_sample");
}

void BatchFiller::ask() {
  if (!under_way() || asked_) return;
  asked_ = true;
  port_.note_working(*claim_);
  publish_what_it_throws([&] { port_.ask(*claim_, bytes_); });
}

bool BatchFiller::try_finish() {
  if (!under_way()) return true;
  switch (port_.grant(*claim_, bytes_)) {
    case WorkerPort::Grant::kWaiting:
      return false;
    case WorkerPort::Grant::kAbandoned:
      let_go();
      port_.publish(*claim_, 0);
      break;
    case WorkerPort::Grant::kGranted:
      publish_what_it_throws([&] { write(); });
      break;
  }
  claim_.reset();
  return true;
}

void BatchFiller::write() {
  port_.note_writing(*claim_);
  FAILPOINT("worker.before_write");
  const std::span<std::byte> block = port_.block(*claim_, bytes_);
  if constexpr (kFailpointsEnabled) {  // torn on purpose: who reads an unpublished block sees it
    std::memset(block.data(), 0xEE, bytes_ / 2);
    FAILPOINT("worker.mid_write");
  }
  maker_.write(block, [&] { port_.announce(*claim_); });
  if (options_.check_finite)
    require_finite(BatchView(maker_.written(block),
                             is_packed(block) ? BatchView::Form::kPacked : BatchView::Form::kWhole));
  port_.note_gathered(*claim_);
  const TierCounts counts = maker_.tier_counts();
  port_.note_tiers(*claim_, counts - told_);
  told_ = counts;
  note_gpu_use(maker_.gpu_use());
  port_.publish(*claim_, bytes_);
}

}  // namespace hopfeed
