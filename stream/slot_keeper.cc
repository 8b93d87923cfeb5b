// See slot_keeper.h.
#include "stream/slot_keeper.h"

#include <algorithm>
#include <utility>

namespace hopfeed {

SlotKeeper::SlotKeeper(std::shared_ptr<ChannelHost> host)
    : host_(std::move(host)), names_(host_->view().shape().num_workers) {}

void SlotKeeper::welcome(std::uint32_t number) {
  last_name_ = last_name_ % kMaxIncarnation + 1;  // never 0, which means nobody
  names_[number] = last_name_;
  WorkerRecord& record = host_->view().worker(number);
  record.error_code = 0;
  record.waiting_since.store(0);  // of the one before, killed while it waited
  record.at_slot.store(0);
  record.gpu_graph_bytes.store(0);  // a device takes them back from the dead
  record.gpu_rows_bytes.store(0);
  record.gpu_graph_share.store(0);
  record.gpu_rows_share.store(0);
  record.state.store(static_cast<std::uint32_t>(WorkerState::kStarting));
  record.incarnation.store(last_name_);
}

void SlotKeeper::bury(std::uint32_t number) {
  host_->note_death();
  host_->reclaim(names_[number]);
  names_[number] = 0;
}

void SlotKeeper::reclaim_ownerless(const std::vector<SlotPool::Filling>& filling) {
  for (const SlotPool::Filling& slot : filling) {
    const bool known = slot.owner != 0 && std::find(names_.begin(), names_.end(), slot.owner) != names_.end();
    if (!known) host_->reclaim(slot.owner);
  }
}

}  // namespace hopfeed
