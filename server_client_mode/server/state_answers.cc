// See state_answers.h.
#include "server_client_mode/server/state_answers.h"

#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

#include "core/base/failpoint.h"
#include "wire/checked_bytes.h"

namespace hopfeed {

StateAnswers::StateAnswers(const ServedDatasets& datasets, boost::asio::any_io_executor loop,
                           std::size_t num_threads)
    : loop_(std::move(loop)), threads_(num_threads) {
  for (const ServedDataset& served : datasets.all())
    owned_[&served].owner = std::make_unique<StateOwner>(*served.dataset, static_cast<int>(num_threads));
}

StateAnswers::~StateAnswers() { threads_.join(); }

StateAnswers::Strand& StateAnswers::lane(Owned& owned, std::uint32_t number) {
  return owned.lanes.try_emplace(number, boost::asio::make_strand(threads_.get_executor())).first->second;
}

void StateAnswers::answer(const ServedDataset& dataset, std::uint64_t session, std::uint64_t request,
                          PeerBytes question, Events events) {
  Owned& owned = owned_.at(&dataset);
  const std::uint32_t number = StateOwner::lane_of(question);
  auto done = [this, request, done = std::move(events.done)](StateReply reply) {
    std::shared_ptr<PeerBytes> answer;
    std::optional<Error> error;
    if (std::holds_alternative<AskedAgain>(reply)) return;
    if (auto* bytes = std::get_if<RecycledBytes>(&reply)) {
      answer = std::make_shared<PeerBytes>(std::move(*bytes));
      wire::add_checksum(*answer, request);
    } else {
      error = std::get<Error>(reply);
    }
    boost::asio::post(loop_,
                      [done, answer = std::move(answer), error = std::move(error)] { done(answer, error); });
  };
  boost::asio::post(
      lane(owned, number),
      [this, &owner = *owned.owner, session, taken = std::move(events.taken), done = std::move(done),
       message = std::make_shared<const RecycledBytes>(std::move(question))] {
        FAILPOINT("server.state");
        owner.answer(session, message, done);
        boost::asio::post(loop_, taken);
      });
}

void StateAnswers::disconnected(std::uint64_t session) {
  for (auto& [dataset, owned] : owned_)
    boost::asio::post(lane(owned, 0), [&owner = *owned.owner, session] { owner.disconnected(session); });
}

void StateAnswers::tick() {
  const auto now = StateOwner::Clock::now();
  for (auto& [dataset, owned] : owned_)
    for (const std::uint32_t number : owned.owner->lanes())
      boost::asio::post(lane(owned, number),
                        [&owner = *owned.owner, number, now] { owner.tick(number, now); });
}

}  // namespace hopfeed
