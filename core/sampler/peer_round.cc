// See peer_round.h.
#include "core/sampler/peer_round.h"

#include <utility>

namespace hopfeed {

PeerRound::~PeerRound() {
  for (; taken_ < asked_.size(); ++taken_) dataset_.peers()->drop(asked_[taken_].ticket);
}

void PeerRound::ask(int partition, PeerBytes question) {
  asked_.reserve(asked_.size() + 1);  // first: a ticket that nobody knows is never dropped
  asked_.push_back({.partition = partition,
                    .ticket = dataset_.require_peers(partition).ask(partition, std::move(question))});
}

void PeerRound::send() {
  if (!asked_.empty()) dataset_.peers()->send_asked();
}

void PeerRound::take(const std::function<void(int partition, const PeerAnswer& answer)>& each) {
  while (taken_ < asked_.size()) {
    const Asked asked = asked_[taken_++];
    each(asked.partition, dataset_.peers()->wait(asked.ticket));
  }
}

}  // namespace hopfeed
